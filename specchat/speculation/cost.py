"""What a forward pass costs on this machine, point by measured point.

T(n), the seconds of a pass over n rows, has steps and is not monotone (kernels work in fours), so no line is fitted.
A cost is a product of three parts that change for different reasons:

    T(n, context) = shape[n] · growth(context) · machine speed

The shape belongs to model and kernels, growth to attention, the speed to the machine of this minute. A machine that
slows down is thus followed by every point at once, also by those that are not being measured.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specchat.speculation.growth import ContextGrowth

_VERSION = 1
_UNSURE = 0.3
"""Relative error of a point known only from another session, or only from first passes at a new shape."""
_FEW = 3
"""Passes at a size that count at once, whatever else was measured lately."""
_GROWTH_EVERY = 4
"""Growth is slow: every fourth pass tells enough of it."""
_SETTLING = 4
"""Passes an observation waits before it moves its point: by then a jump of the machine has shown itself."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of a pass, and how far off they may be, as a fraction of them."""

    seconds: float
    error: float


class MachineSpeed:
    """How slow the machine is just now: one factor common to all costs, 1 when measuring began.

    The median over the last 31 passes of any size; when the last 7 say otherwise, over these alone. A lasting change
    is thus followed after four passes, and single late ones count for nothing, be they ten times late.
    """

    _WINDOW = 31
    _NEWEST = 7
    _REFERENCES = 8
    _JUMP = 0.15

    def __init__(self) -> None:
        self.log_factor = 0.0
        self._points: deque[int] = deque(maxlen=self._WINDOW)
        self._residuals: deque[float] = deque(maxlen=self._WINDOW)

    def observe(self, point: int, residual: float) -> bool:
        """Add a pass at `point` that took exp(`residual`) times its share of the shape; whether the speed jumped."""
        self._points.append(point)
        self._residuals.append(residual)
        residuals = list(self._residuals)
        self.log_factor = _median(residuals)
        if len(residuals) <= self._NEWEST or not self._has_jumped(residuals):
            return False
        for _ in range(len(residuals) - self._NEWEST // 2 - 1):
            self._points.popleft()
            self._residuals.popleft()
        self.log_factor = _median(self._residuals)
        return True

    def _has_jumped(self, residuals: list[float]) -> bool:
        change = abs(_median(residuals[-self._NEWEST :]) - self.log_factor)
        if change <= self._JUMP:
            return False
        # Three standard deviations of a median of seven (1.25 σ / √7), σ from the median deviation.
        deviation = _median([abs(r - self.log_factor) for r in residuals])
        return change > 2.1 * deviation

    def told_by_others(self, point: int) -> float | None:
        """The log factor as the passes at other points tell it; None when too few of them are recent."""
        if len(self._points) - self._points.count(point) < self._REFERENCES:
            return None
        return _median([r for p, r in zip(self._points, self._residuals, strict=True) if p != point])

    def shift(self, delta: float) -> None:
        """Move a common part of the cost from the growth into the speed."""
        self._residuals = deque((r + delta for r in self._residuals), maxlen=self._WINDOW)
        self.log_factor += delta


class _Point:
    """The log cost of one size at speed factor 1 and context 0."""

    __slots__ = ("_error", "_is_old", "_value", "first", "prior", "steady")

    def __init__(self, prior: float | None = None) -> None:
        self.prior = prior
        self.steady: deque[float] = deque(maxlen=31)
        self.first: deque[float] = deque(maxlen=7)
        self._value = 0.0 if prior is None else prior
        self._error = _UNSURE
        self._is_old = False

    @property
    def value(self) -> float:
        if self._is_old:
            self._estimate()
        return self._value

    @property
    def error(self) -> float:
        if self._is_old:
            self._estimate()
        return self._error

    def add(self, value: float, *, steady: bool) -> None:
        (self.steady if steady else self.first).append(value)
        self._is_old = True

    def _estimate(self) -> None:
        self._is_old = False
        values = sorted(self.steady or self.first)
        if self.prior is not None and len(values) < _FEW:
            values = sorted([*values, self.prior])
        self._value = _median_of_sorted(values)
        if self.steady:
            deviation = _median([abs(v - self._value) for v in values])
            # 1.48 · MAD estimates σ, and a median of m values has 1.25 · σ / √m.
            spread = 1.85 * deviation / math.sqrt(len(self.steady))
            self._error = max(0.01, spread, 0.2 / len(self.steady))


class CostCurve:
    """Seconds of a pass by its size: rows verified by the target, or tokens proposed by a drafter.

    Points are running medians. The first pass after a change of size also builds the graph anew: it is kept apart
    (`switched=True`), and what it costs over a steady pass is `switch_s`.

    A curve that follows a `speed` without leading it (`leads=False`) is scaled by it: a drafter's costs stay right
    while only the target is being measured. What a curve measures at one size alone is taken for the machine's
    speed; a point's place among the others is learnt only where others were measured about the same time.
    """

    def __init__(self, speed: MachineSpeed | None = None, *, leads: bool = True) -> None:
        self.speed = MachineSpeed() if speed is None else speed
        self._leads = leads
        self._points: dict[int, _Point] = {}
        self._sizes: tuple[int, ...] = ()
        self._growth = ContextGrowth()
        self._context = 0
        self._log_growth = 0.0
        self._passes = 0
        self._firsts = 0
        """First passes in a row."""
        self._settling: deque[tuple[int, float]] = deque()
        self._switches: deque[float] = deque(maxlen=15)

    @property
    def measured(self) -> tuple[int, ...]:
        """The sizes that have a point of their own, ascending."""
        return self._sizes

    def has_point(self, n: int) -> bool:
        """Whether size `n` was measured, now or in the session the cache is from."""
        return n in self._points

    @property
    def switch_s(self) -> float:
        """Seconds that the first pass at a new size costs over a steady one; 0 when never seen."""
        if not self._switches:
            return 0.0
        return max(0.0, _median(self._switches)) * math.exp(self.speed.log_factor)

    def record(self, n: int, seconds: float, context: int = 0, *, switched: bool = False) -> None:
        """Add a pass of size `n` after `context` tokens. Raises ValueError unless n ≥ 1 and 0 < seconds < ∞."""
        if n < 1 or not 0 < seconds < math.inf:
            raise ValueError(f"A cost needs a size of at least 1 and a positive time, not {n} and {seconds}.")
        self._move_to(context)
        if switched:
            self._record_first(n, seconds)
            return
        self._firsts = 0
        log_s = math.log(seconds) - self._log_growth
        point = self._point(n)
        if not (point.steady or point.first or point.prior is not None):
            point.add(log_s - self.speed.log_factor, steady=True)
        if not self._leads:
            point.add(log_s - self.speed.log_factor, steady=True)
        elif self.speed.observe(n, log_s - point.value):
            # These were measured while the machine changed: they tell nothing about one size against another.
            self._settling.clear()
        elif len(point.steady) < _FEW:
            point.add(log_s - self.speed.log_factor, steady=True)
        else:
            self._settling.append((n, log_s))
            self._take_settled()
        self._passes += 1
        if self._passes % _GROWTH_EVERY == 0:
            self._learn_growth(log_s + self._log_growth - point.value)

    def _take_settled(self) -> None:
        if len(self._settling) <= _SETTLING:
            return
        n, log_s = self._settling.popleft()
        reference = self.speed.told_by_others(n)
        if reference is not None:
            self._points[n].add(log_s - reference, steady=True)

    def _record_first(self, n: int, seconds: float) -> None:
        point = self._points.get(n)
        self._firsts += 1
        if point is not None and self._leads and self._firsts > _SETTLING:
            # Sizes that alternate never have a second pass: their first ones must tell how fast the machine is.
            usual_s = self.estimate_s(n) + (self.switch_s if point.steady else 0)
            self.speed.observe(n, self.speed.log_factor + math.log(seconds / usual_s))
        if point is not None and point.steady:
            extra = seconds - self.estimate_s(n)
            self._switches.append(extra * math.exp(-self.speed.log_factor))
        else:
            # The best there is until a second pass at this size comes; never below half, whatever the extra was.
            steady_s = max(seconds - self.switch_s, seconds / 2)
            value = math.log(steady_s) - self._log_growth - self.speed.log_factor
            self._point(n).add(value, steady=False)

    def _point(self, n: int, prior: float | None = None) -> _Point:
        if n not in self._points:
            self._points[n] = _Point(prior)
            self._sizes = tuple(sorted(self._points))
        return self._points[n]

    def _move_to(self, context: int) -> None:
        if context != self._context:
            self._context = context
            self._log_growth = self._growth.log_factor(context)

    def _learn_growth(self, log_unit: float) -> None:
        # A follower's speed is known from elsewhere; a leader's is what growth must not be mistaken for.
        unit = log_unit if self._leads else log_unit - self.speed.log_factor
        if self._context and self._growth.record(self._context, unit):
            before, self._log_growth = self._log_growth, self._growth.log_factor(self._context)
            if self._leads:
                self.speed.shift(before - self._log_growth)

    def passes(self, n: int, *, steady: bool = False) -> int:
        """Recent passes of size `n` in this session; with `steady` without first passes after a change of size."""
        point = self._points.get(n)
        if point is None:
            return 0
        return len(point.steady) + (0 if steady else len(point.first))

    def estimate_s(self, n: int) -> float:
        """Seconds of a pass of the measured size `n`. Raises KeyError where there is no point."""
        return math.exp(self._points[n].value + self._log_growth + self.speed.log_factor)

    def estimate(self, n: int) -> Cost | None:
        """Seconds of a pass of size `n` at the last context; None outside of what was measured.

        Between two measured sizes T may lie anywhere, also outside of the two: the line between them comes with an
        error that says so.
        """
        point = self._points.get(n)
        if point is not None:
            return Cost(self.estimate_s(n), point.error)
        right = bisect_left(self._sizes, n)
        if right in (0, len(self._sizes)):
            return None
        low, high = self._sizes[right - 1], self._sizes[right]
        below, above = self.estimate_s(low), self.estimate_s(high)
        seconds = below + (above - below) * (n - low) / (high - low)
        error = max(self._points[low].error, self._points[high].error)
        return Cost(seconds, min(0.9, 0.1 + error + abs(above - below) / (2 * seconds)))

    def to_dict(self) -> dict[str, Any]:
        """The curve for a cache, JSON-able: seconds by size at context 0, growth, seconds of a switch."""
        factor = self.speed.log_factor
        points = {str(n): math.exp(p.value + factor) for n, p in sorted(self._points.items())}
        return {"version": _VERSION, "seconds": points, "growth": self._growth.slope, "switch_s": self.switch_s}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], speed: MachineSpeed | None = None, *, leads: bool = True) -> CostCurve:
        """A curve whose points are a first guess: three fresh passes at a size overrule what was cached for it.

        The first fresh pass at any size sets the speed for all. Raises ValueError where `data` is no such dict.
        """
        curve = cls(speed, leads=leads)
        if data.get("version") != _VERSION:
            raise ValueError(f"The cached costs have version {data.get('version')!r}, not {_VERSION}: measure anew.")
        try:
            for n, seconds in data["seconds"].items():
                if not (int(n) >= 1 and 0 < seconds < math.inf):
                    raise ValueError(n)
                curve._point(int(n), math.log(seconds))
            curve._growth = ContextGrowth(float(data["growth"]))
            switch_s = float(data["switch_s"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("The cached costs are damaged: measure anew.") from error
        if switch_s > 0:
            curve._switches.append(switch_s)
        return curve


def _median(values: Iterable[float]) -> float:
    return _median_of_sorted(sorted(values))


def _median_of_sorted(values: list[float]) -> float:
    # The lower of two middle ones: passes are late, never early.
    return values[(len(values) - 1) // 2]
