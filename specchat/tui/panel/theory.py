"""What the closed forms say beside what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from specchat.speculation.theory import ceiling, expected_tokens, predicted_tokens
from specchat.worker.messages import Figures


@dataclass(frozen=True, slots=True)
class Theory:
    """Tokens a step: the ceiling of ever longer drafts, and what was to be expected of the drafts of this length."""

    ceiling: float
    expected: float
    gamma: int


def theory_of(figures: Figures) -> Theory | None:
    """1/(1 − α), and E[τ] at the depth in use (2211.17192, equation 1; by the rates of each position where known).

    None before anything was tested.
    """
    if figures.alpha is None or not figures.steps:
        return None
    alpha = min(max(figures.alpha, 0.0), 1.0)
    gamma = depth_in_use(figures)
    rates = [min(max(rate, 0.0), 1.0) for rate in figures.per_position[:gamma]]
    expected = predicted_tokens(rates) if gamma and len(rates) == gamma else expected_tokens(alpha, gamma)
    return Theory(ceiling(alpha), expected, gamma)


def depth_in_use(figures: Figures) -> int:
    """γ: the depth that most steps drafted with, the deeper of two equals; the present one before any step."""
    drafting = {depth: steps for depth, steps in figures.depths.items() if depth}
    return max(drafting, key=lambda depth: (drafting[depth], depth)) if drafting else figures.depth


def tokens(number: float) -> str:
    """A number of tokens a step; without end at α = 1."""
    return "no limit" if math.isinf(number) else f"{number:.2f}"
