"""How the cost of a pass grows with the tokens before it: attention reads them all."""

from __future__ import annotations

import math
from collections import deque
from itertools import combinations
from statistics import median

_STEEPEST = 0.004
"""Relative growth per token that is still believed: four times the cost of an empty context, per 1,000 tokens."""
_STALE = 512
"""Passes after which a bucket no longer tells anything about the machine as it is now."""
_EVERY = 4


class ContextGrowth:
    """The factor 1 + slope · context, common to passes of all sizes of one model.

    Costs relative to the shape are kept by context bucket (powers of two). The slope is the median of the slopes
    between the buckets' medians (Theil–Sen), approached by a quarter each time; one pass, however late, moves nothing.
    """

    def __init__(self, slope: float = 0.0) -> None:
        self.slope = min(max(slope, 0.0), _STEEPEST)
        self._buckets: dict[int, deque[tuple[int, float]]] = {}
        self._last: dict[int, int] = {}
        self._passes = 0

    def log_factor(self, context: int) -> float:
        """The logarithm of the growth at `context` tokens."""
        return math.log1p(self.slope * context)

    def record(self, context: int, log_unit: float) -> bool:
        """Add a pass that cost exp(`log_unit`) times its share of the shape; whether the slope has moved."""
        self._passes += 1
        bucket = max(context, 128).bit_length()
        self._buckets.setdefault(bucket, deque(maxlen=15)).append((context, log_unit))
        self._last[bucket] = self._passes
        if self._passes % _EVERY or len(self._buckets) < 2:
            return False
        slopes = self._slopes()
        if not slopes:
            return False
        self.slope += (median(slopes) - self.slope) / 4
        return True

    def _slopes(self) -> list[float]:
        points = sorted(
            (median(c for c, _ in window), math.exp(median(u for _, u in window)))
            for bucket, window in self._buckets.items()
            if len(window) >= 5 and self._passes - self._last[bucket] < _STALE
        )
        slopes = []
        for (c1, u1), (c2, u2) in combinations(points, 2):
            if c2 < 1.5 * c1:
                continue
            rise = (u2 - u1) / (c2 - c1)
            empty = u1 - rise * c1
            slopes.append(min(max(rise / empty, 0.0), _STEEPEST) if empty > 0 else _STEEPEST)
        return slopes
