"""How often draft tokens are accepted, by position in the draft, as far as the recent past tells."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

_LIKE_THE_ONE_BEFORE = 2.0
"""Tests' worth of the belief that a position is accepted as often as the one before it."""


class AcceptanceRates:
    """Conditional acceptance rates a_i, those of position i among the drafts in which i was tested.

    The past is forgotten exponentially, by drafted steps. When the last steps contradict it (their accepted tokens lie
    `_SURPRISE` standard deviations off), it is dropped but for these steps: a change of text is followed in a few
    steps, not in a half-life. A position seen seldom leans on the one before it.
    """

    _SURPRISE = 4.0
    _RECENT = 6

    def __init__(self, prior: float = 0.6, prior_weight: float = 1.0, *, half_life: float = 28) -> None:
        self._prior = prior
        self._prior_weight = prior_weight
        # Instead of shrinking all old counts each step, new ones are counted with a growing weight.
        self._inflation = 2 ** (1 / half_life)
        self._weight = 1.0
        self._tested: list[float] = []
        self._accepted: list[float] = []
        self._rates: list[float] | None = None
        self._age = 0
        self._recent: deque[tuple[int, int]] = deque(maxlen=self._RECENT)
        self._surplus = self._variance = 0.0

    def record(self, tested: int, accepted: int) -> bool:
        """Add the outcome of a draft; whether it shows that the rates have changed.

        Raises ValueError unless 0 ≤ accepted ≤ tested.
        """
        if not 0 <= accepted <= tested:
            raise ValueError(f"{accepted} tokens accepted of {tested} tested cannot be.")
        surprised = self._is_surprised(tested, accepted)
        self._recent.append((tested, accepted))
        if surprised:
            self._restart()
        else:
            self._weight *= self._inflation
            self._count(tested, accepted)
        if self._weight > 1e9:
            self._rescale(1 / self._weight)
        self._age += 1
        return surprised

    def _count(self, tested: int, accepted: int) -> None:
        missing = tested - len(self._tested)
        if missing > 0:
            self._tested += [0.0] * missing
            self._accepted += [0.0] * missing
        for i in range(tested):
            self._tested[i] += self._weight
        for i in range(accepted):
            self._accepted[i] += self._weight

    def _is_surprised(self, tested: int, accepted: int) -> bool:
        # Rates of a step or two ago will do here.
        fresh = self._rates is not None and self._age < 2 and len(self._rates) >= tested
        rates = self._rates[:tested] if fresh and self._rates else self.rates(tested)
        self._surplus = 0.85 * self._surplus + accepted - math.fsum(rates)
        self._variance = 0.85**2 * self._variance + math.fsum(a * (1 - a) for a in rates)
        # Half a token: with rates near 0 or 1 a single odd outcome is no proof.
        return abs(self._surplus) - 0.5 > self._SURPRISE * math.sqrt(self._variance)

    def _restart(self) -> None:
        self._tested, self._accepted, self._weight = [], [], 1.0
        self._surplus = self._variance = 0.0
        self._rates = None
        for tested, accepted in self._recent:
            self._count(tested, accepted)

    def _rescale(self, factor: float) -> None:
        self._weight *= factor
        self._tested = [t * factor for t in self._tested]
        self._accepted = [a * factor for a in self._accepted]

    def soften(self, tests: float) -> None:
        """Let all that was seen count for no more than `tests` tests of the first position: it is old."""
        if self._tested and self._tested[0] > tests * self._weight:
            prior = self.rates(1)[0]
            keep = tests * self._weight / self._tested[0]
            self._tested = [t * keep for t in self._tested]
            self._accepted = [a * keep for a in self._accepted]
            self._prior = prior
            self._surplus = self._variance = 0.0
            self._recent.clear()
            self._age += 1

    def rates(self, depth: int) -> list[float]:
        """The rates of positions 0 … depth − 1."""
        if self._rates is None or self._age:
            self._rates = self._estimate()
            self._age = 0
        known = self._rates[:depth]
        last = known[-1] if known else self._prior
        return known + [last] * (depth - len(known))

    def _estimate(self) -> list[float]:
        rates: list[float] = []
        before, lean = self._prior, self._prior_weight * self._weight
        for tested, accepted in zip(self._tested, self._accepted, strict=True):
            before = (accepted + lean * before) / (tested + lean)
            rates.append(before)
            lean = _LIKE_THE_ONE_BEFORE * self._weight
        return rates

    def expected_tokens(self, depths: Sequence[int]) -> list[float]:
        """1 + Σ_{i<d} Π_{j≤i} a_j for each d of `depths` (ascending): tokens a step, its own one included."""
        expected: list[float] = []
        rates = self.rates(depths[-1] if depths else 0)
        tokens, reached, at = 1.0, 1.0, 0
        for depth in depths:
            while at < depth:
                reached *= rates[at]
                tokens += reached
                at += 1
            expected.append(tokens)
        return expected

    def to_dict(self) -> dict[str, Any]:
        """The first position's rate, JSON-able: all that another session's text has in common with this one's."""
        return {"version": 1, "rate": self.rates(1)[0]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AcceptanceRates:
        """Rates that start from another session's, which counts for one test. Raises ValueError on other data."""
        rate = data.get("rate")
        if data.get("version") != 1 or not isinstance(rate, int | float) or not 0 <= rate <= 1:
            raise ValueError("The cached acceptance rates are damaged: measure anew.")
        return cls(float(rate))
