"""T(n): what a pass over n tokens costs here, measured apart from any drafting."""

from __future__ import annotations

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
    context: int
    """Tokens before it."""

    def ratio(self, n: int) -> float:
        """T(n) / T(1); on the line between, or beyond, the two nearest sizes where n was not measured."""
        sizes = sorted(self.seconds)
        one = self.seconds[sizes[0]][0]
        if n in self.seconds or len(sizes) == 1:
            return self.seconds.get(n, self.seconds[sizes[0]])[0] / one
        right = min(max(1, bisect_left(sizes, n)), len(sizes) - 1)
        low, high = sizes[right - 1], sizes[right]
        below, above = self.seconds[low][0], self.seconds[high][0]
        return (below + (above - below) * (n - low) / (high - low)) / one


def measure_passes(
    context: Context,
    prompt: Sequence[int],
    sizes: Sequence[int],
    cycles: int,
    told: Callable[[str], None] = lambda _: None,
    sampling: SamplingParams | None = None,
) -> Passes:
    """Time passes of `sizes` rows (1 among them) after `prompt`, size by size, `cycles` times over.

    Between the sizes the machine may change its speed: taking turns spreads that evenly. Raises ValueError without 1.
    """
    if 1 not in sizes:
        raise ValueError("A pass over one token is what the others are compared with: 1 must be among the sizes.")
    sampling = sampling or SamplingParams(0.0)
    context.clear()
    context.prefill(list(prompt))
    tokens = [prompt[i % len(prompt)] for i in range(max(sizes))]
    times: dict[int, list[float]] = {n: [] for n in sorted(set(sizes))}
    for cycle in range(cycles):
        told(f"passes over 1 to {max(sizes)} tokens, {cycle + 1} of {cycles}")
        for n, measured in times.items():
            for repeat in range(_STEADY + 1):
                started = time.perf_counter()
                for row in context.decode(tokens[:n]):
                    warp(row, prompt, sampling)
                ended = time.perf_counter()
                context.truncate(len(prompt))
                if repeat:
                    measured.append(ended - started)
    return Passes({n: (statistics.median(t), min(t), max(t)) for n, t in times.items()}, len(prompt))
