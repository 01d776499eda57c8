"""The plain rate on this machine: what every speed-up is measured against."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

_VERSION = 1
_BUCKET = 512
_RECENT = 15
_LATE = 2.5
"""A step that takes so many times the median was held up by something else."""
_EARLY = 1.5
"""One that takes so many times less is from before the machine became slower."""
_AT_FIRST = 3
"""True plain steps early in a turn."""
_BEGIN = 8
"""Steps before them: right after the prompt caches are cold and a front end draws, which would flatter drafts."""
_KNOWN = 6
"""Fresh steps that tell a bucket's rate well enough for drafts never to be interrupted for more."""
_EVERY = 100
"""Steps to the next plain one: one in a hundred of the rest."""


class Baseline:
    """Tokens a second of plain decoding by context bucket (512 tokens), from steps that truly were plain.

    A step counts as plain only after another plain one: the first after a draft pays for a graph of another size.
    Nothing is modelled; where no plain step was ever measured there is no rate.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, deque[float]] = {}
        self._cached: dict[int, float] = {}
        self._steps = 0
        self._due = 0
        self._asked = 0
        self._after_plain = False

    def begin_turn(self) -> None:
        """Start an answer: some of its early steps are to be plain."""
        self._steps = 0
        self._asked = 0
        self._due = _BEGIN
        self._after_plain = False

    def wants_plain_step(self) -> bool:
        """Whether the coming step should be plain: three early in a turn, and later two in every two hundred.

        Later ones come in pairs, since the first of them is not counted.
        """
        return self._steps >= self._due

    def record(self, depth: int, seconds: float, context: int) -> None:
        """Add a step of the answer, plain at depth 0, that took `seconds` after `context` tokens.

        Raises ValueError unless 0 < seconds < ∞.
        """
        if not 0 < seconds < math.inf:
            raise ValueError(f"A step takes a positive time, not {seconds} s.")
        if depth == 0:
            if self._after_plain:
                self._buckets.setdefault(context // _BUCKET, deque(maxlen=_RECENT)).append(seconds)
            if self._steps >= self._due:
                self._asked += 1
        self._after_plain = depth == 0
        self._steps += 1
        if self._asked >= _AT_FIRST and (self._asked - _AT_FIRST) % 2 == 0 and self._steps > self._due and depth == 0:
            self._due = self._steps + 2 * _EVERY

    def knows(self, context: int) -> bool:
        """Whether the bucket of `context` was measured often enough, now or before."""
        bucket = context // _BUCKET
        return len(self._buckets.get(bucket, ())) >= _KNOWN or bucket in self._cached

    def tok_s(self, context: int) -> float | None:
        """Plain tokens a second at `context`; None when never measured.

        Between two measured buckets the seconds are interpolated by context; beyond them the nearest holds.
        """
        seconds = {**self._cached, **{bucket: _typical(times) for bucket, times in self._buckets.items()}}
        if not seconds:
            return None
        at = context // _BUCKET
        if at in seconds:
            return 1 / seconds[at]
        below = max((b for b in seconds if b < at), default=None)
        above = min((b for b in seconds if b > at), default=None)
        if below is None or above is None:
            nearest = below if above is None else above
            assert nearest is not None
            return 1 / seconds[nearest]
        share = (at - below) / (above - below)
        return 1 / (seconds[below] + share * (seconds[above] - seconds[below]))

    def to_dict(self) -> dict[str, Any]:
        """The measured seconds a token by bucket, JSON-able."""
        seconds = {**self._cached, **{bucket: _typical(times) for bucket, times in self._buckets.items()}}
        return {"version": _VERSION, "bucket": _BUCKET, "seconds": {str(b): s for b, s in sorted(seconds.items())}}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Baseline:
        """A baseline whose cached buckets stand until a fresh step falls into them. Raises ValueError on other data."""
        baseline = cls()
        try:
            if data["version"] != _VERSION or data["bucket"] != _BUCKET:
                raise ValueError(data["version"])
            for bucket, seconds in data["seconds"].items():
                if int(bucket) < 0 or not 0 < seconds < math.inf:
                    raise ValueError(bucket)
                baseline._cached[int(bucket)] = float(seconds)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("The cached plain rate is damaged: measure anew.") from error
        return baseline


def _typical(times: Sequence[float]) -> float:
    """The mean without what came very late: plain decoding has its small delays too, so a median would flatter it."""
    usual = median(times)
    return fmean(time for time in times if usual / _EARLY <= time <= _LATE * usual)
