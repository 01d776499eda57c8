"""The largest context that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

STEP: Final = 256
"""Cells of a cache come in such portions (llama-context.cpp)."""


def largest(fits: Callable[[int], bool], longest: int) -> int:
    """The largest context of at most `longest` tokens that `fits`, in whole steps; 0 where not even one step does.

    What a context takes grows with its length: the search halves the range, about ten questions for a million tokens.
    """
    if longest < 1:
        return 0
    fitting, failing = 0, -(-longest // STEP) + 1
    if fits(longest):
        return longest
    failing -= 1
    while failing - fitting > 1:
        middle = (fitting + failing) // 2
        fitting, failing = (middle, failing) if fits(middle * STEP) else (fitting, middle)
    return fitting * STEP
