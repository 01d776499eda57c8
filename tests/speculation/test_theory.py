from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.speculation.theory import ceiling, expected_speedup, expected_tokens, predicted_tokens


@pytest.mark.parametrize(("alpha", "tokens", "speedup"), [(0.75, 3.29, 2.19), (0.85, 4.15, 2.77)])
def test_the_worked_figures(alpha: float, tokens: float, speedup: float) -> None:
    assert round(expected_tokens(alpha, 5), 2) == tokens
    assert round(expected_speedup(alpha, 5, 0.1), 2) == speedup


@pytest.mark.parametrize(("alpha", "limit"), [(0.7, 3.33), (0.8, 5), (0.9, 10), (0, 1)])
def test_ceilings(alpha: float, limit: float) -> None:
    assert round(ceiling(alpha), 2) == limit
    assert expected_tokens(alpha, 400) == pytest.approx(ceiling(alpha))


@given(st.floats(0, 0.999), st.integers(0, 40))
def test_expected_tokens_is_the_closed_form(alpha: float, gamma: int) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha))


def test_certain_acceptance() -> None:
    assert expected_tokens(1, 5) == 6
    assert expected_tokens(1 - 1e-15, 5) == pytest.approx(6, abs=1e-12)
    assert ceiling(1) == math.inf
    assert expected_speedup(1, 5, 0.1) == 4


def test_depth_0_is_plain_decoding() -> None:
    assert expected_tokens(0.8, 0) == expected_speedup(0.8, 0, 0.3) == predicted_tokens([]) == 1


@given(st.floats(0, 1), st.integers(0, 12))
def test_equal_rates_predict_the_closed_form(alpha: float, gamma: int) -> None:
    assert predicted_tokens([alpha] * gamma) == pytest.approx(expected_tokens(alpha, gamma))


def test_predicted_tokens_multiplies_conditional_rates() -> None:
    assert predicted_tokens([0.5, 0.4, 0.5]) == pytest.approx(1 + 0.5 + 0.2 + 0.1)


def test_predicted_tokens_agrees_with_a_simulation() -> None:
    rng, rates = np.random.default_rng(3), np.array([0.9, 0.6, 0.8])
    hits = rng.random((20_000, 3)) < rates
    tokens = 1 + np.cumprod(hits, axis=1).sum(axis=1)
    assert predicted_tokens(rates.tolist()) == pytest.approx(tokens.mean(), abs=0.03)


@pytest.mark.parametrize("alpha", [-0.01, 1.01, math.nan])
def test_a_rate_outside_0_and_1_is_refused(alpha: float) -> None:
    refused: list[Callable[[], float]] = [
        lambda: expected_tokens(alpha, 2),
        lambda: ceiling(alpha),
        lambda: expected_speedup(alpha, 2, 0.1),
        lambda: predicted_tokens([0.5, alpha]),
    ]
    for formula in refused:
        with pytest.raises(ValueError, match="between 0 and 1"):
            formula()


def test_negative_depths_and_costs_are_refused() -> None:
    with pytest.raises(ValueError, match="draft tokens must be at least 0"):
        expected_tokens(0.5, -1)
    for cost in (-0.1, math.inf, math.nan):
        with pytest.raises(ValueError, match="cost ratio must be at least 0"):
            expected_speedup(0.5, 2, cost)
