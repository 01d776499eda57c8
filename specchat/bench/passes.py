"""T(n): what a pass over n tokens costs here, measured apart from any drafting."""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specchat.llama.context import Context
from specchat.speculation.distribution import warp
from specchat.speculation.params import SamplingParams

_STEADY = 3
"""Passes of a size in a row that count; the one before them builds the graph anew."""


@dataclass(frozen=True, slots=True)
class Passes:
    """Seconds of a pass with the distributions of all its rows, by the number of rows: median, least and most."""

    seconds: dict[int, tuple[float, float, float]]
    ratios: dict[int, float]
    """T(n) / T(1), each against passes over one token right beside: a machine that changes its speed cancels out."""
    context: int
    """Tokens before it."""

    def ratio(self, n: int) -> float:
        """T(n) / T(1); on the line between, or beyond, the two nearest sizes where n was not measured."""
        sizes = sorted(self.ratios)
        if n in self.ratios or len(sizes) == 1:
            return self.ratios.get(n, 1.0)
        right = min(max(1, bisect_left(sizes, n)), len(sizes) - 1)
        low, high = sizes[right - 1], sizes[right]
        below, above = self.ratios[low], self.ratios[high]
        return below + (above - below) * (n - low) / (high - low)


def measure_passes(
    context: Context,
    prompt: Sequence[int],
    sizes: Sequence[int],
    cycles: int,
    told: Callable[[str], None] = lambda _: None,
    sampling: SamplingParams | None = None,
    *,
    limit_s: float | None = None,
) -> Passes:
    """Time passes of `sizes` rows after `prompt`, each size beside passes of one row, `cycles` times over.

    What would take longer than `limit_s` in all, the largest sizes first, is left out; one row is always measured.
    """
    sampling = sampling or SamplingParams(0.0)
    context.clear()
    context.prefill(list(prompt))
    tokens = [prompt[i % len(prompt)] for i in range(max(sizes))]

    def block(n: int) -> list[float]:
        found = list[float]()
        for _ in range(_STEADY + 1):
            started = time.perf_counter()
            for row in context.decode(tokens[:n]):
                warp(row, prompt, sampling)
            found.append(time.perf_counter() - started)
            context.truncate(len(prompt))
        return found[1:]

    times: dict[int, list[float]] = {n: [] for n in sorted({1, *sizes})}
    ratios: dict[int, list[float]] = {n: [] for n in times}
    ends = math.inf if limit_s is None else time.perf_counter() + limit_s
    a_row = 0.0
    for cycle in range(cycles):
        told(f"passes over 1 to {max(sizes)} tokens, {cycle + 1} of {cycles}")
        for n in times:
            if times[1] and time.perf_counter() + (_STEADY + 1) * a_row * n > ends:
                break
            one, several = block(1), block(n)
            times[1] += one
            if n > 1:
                times[n] += several
            ratios[n].append(statistics.median(several) / statistics.median(one) if n > 1 else 1.0)
            # A row of a larger pass costs no more than one of this.
            a_row = statistics.median(several) / n
    return Passes(
        {n: (statistics.median(t), min(t), max(t)) for n, t in times.items() if t},
        {n: statistics.median(r) for n, r in ratios.items() if r},
        len(prompt),
    )
