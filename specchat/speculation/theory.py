"""What speculation can give: the closed forms that measured figures are compared with.

All hold for independent acceptance with one rate α for every position (Leviathan, Kalman, Matias: 2211.17192,
section 3), except `predicted_tokens`, which takes a rate for each position.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return E[τ] = (1 − α^(γ+1)) / (1 − α), the tokens of one step (2211.17192, equation 1).

    It is summed as 1 + α + … + α^γ, which holds at α = 1 as well. Raises ValueError unless 0 ≤ α ≤ 1 and γ ≥
    0.
    """
    _require_rate(alpha)
    if gamma < 0:
        raise ValueError(f"The number of draft tokens must be at least 0, not {gamma}.")
    return math.fsum(alpha**i for i in range(gamma + 1))


def ceiling(alpha: float) -> float:
    """Return 1 / (1 − α), what E[τ] approaches as drafts grow; infinity at α = 1.

    Raises ValueError unless 0 ≤ α ≤ 1.
    """
    _require_rate(alpha)
    return math.inf if alpha == 1 else 1 / (1 - alpha)


def expected_speedup(alpha: float, gamma: int, cost_ratio: float) -> float:
    """Return E[τ] / (γ·c + 1), the gain over plain decoding (2211.17192, theorem 3.8).

    `cost_ratio` c is the time of one draft token over that of one target pass, which is taken to cost the
    same for γ + 1 tokens as for one. Raises ValueError unless 0 ≤ α ≤ 1, γ ≥ 0 and c ≥ 0.
    """
    if not 0 <= cost_ratio < math.inf:
        raise ValueError(f"The cost ratio must be at least 0 and finite, not {cost_ratio}.")
    return expected_tokens(alpha, gamma) / (gamma * cost_ratio + 1)


def predicted_tokens(per_position: Sequence[float]) -> float:
    """Return 1 + Σ_i Π_{j≤i} a_j, the tokens of one step whose draft token j is accepted at the rate a_j.

    a_j is conditional: among the steps in which j was tested. Raises ValueError unless 0 ≤ a_j ≤ 1.
    """
    tokens = reached = 1.0
    for rate in per_position:
        _require_rate(rate)
        reached *= rate
        tokens += reached
    return tokens


def _require_rate(rate: float) -> None:
    if not 0 <= rate <= 1:
        raise ValueError(f"An acceptance rate lies between 0 and 1, unlike {rate}.")
