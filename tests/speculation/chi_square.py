"""Pearson's chi-square test, without scipy."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def excess(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Return how many standard deviations X² lies above its expectation, for counts [n] under probabilities [n].

    Cells expected fewer than 8 times are pooled. A cell of probability 0 that was hit gives infinity.
    """
    seen = np.asarray(counts, dtype=float).ravel()
    expected = np.asarray(probabilities, dtype=float).ravel() * seen.sum()
    if seen[expected == 0].any():
        return float("inf")
    rare = expected < 8
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    seen, expected = seen[expected > 0], expected[expected > 0]
    freedom = len(seen) - 1
    assert freedom >= 1
    # Wilson and Hilferty: the cube root of X²/freedom is close to normal, also for few degrees of freedom.
    root = float((((seen - expected) ** 2 / expected).sum() / freedom) ** (1 / 3))
    spread = 2 / (9 * freedom)
    return (root - (1 - spread)) / float(np.sqrt(spread))
