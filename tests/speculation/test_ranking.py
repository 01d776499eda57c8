"""The likeliest tokens of a row are those of the whole softmax, bias and penalties counted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specchat.speculation.params import SamplingParams
from specchat.speculation.ranking import likeliest


@pytest.mark.parametrize("size", [3, 100, 2048, 49152, 151_936])
def test_they_are_the_first_of_the_sorted_softmax(size: int) -> None:
    row = np.random.default_rng(size).normal(0, 4, size).astype(np.float32)
    exact = np.exp(row.astype(np.float64) - row.max())
    exact /= exact.sum()
    order = np.argsort(-row, kind="stable")[:5]
    found = likeliest(row, [], SamplingParams(temperature=0), 5)
    assert [token for token, _ in found] == order.tolist()
    np.testing.assert_allclose([p for _, p in found], exact[order], rtol=1e-5)


def test_the_lower_of_two_equals_comes_first_and_what_is_impossible_never() -> None:
    row = np.array([1, 5, -math.inf, 5, 0], dtype=np.float32)
    assert [token for token, _ in likeliest(row, [], SamplingParams(temperature=0), 5)] == [1, 3, 0, 4]


def test_bias_and_penalties_count_as_they_do_for_the_target() -> None:
    row = np.array([1, 5, 4, 3], dtype=np.float32)
    params = SamplingParams(temperature=0, repeat_penalty=2.0, logit_bias={3: 10.0, 2: -math.inf})
    assert [token for token, _ in likeliest(row, [1], params, 3)] == [3, 1, 0]
    assert row.tolist() == [1, 5, 4, 3]


@pytest.mark.parametrize("temperature", [0.3, 0.8, 2.0, 1e-300])
def test_a_temperature_makes_the_first_more_or_less_likely(temperature: float) -> None:
    row = np.array([1, 5, 4, 3], dtype=np.float32)
    exact = np.exp((row - 5).astype(np.float64) * min(1 / temperature, 1e9))
    (first, second, *_) = [*likeliest(row, [], SamplingParams(temperature=temperature), 2), (2, 0.0)]
    assert (first[0], second[0]) == (1, 2)
    assert first[1] == pytest.approx(1 / exact.sum(), rel=1e-5)
    assert second[1] == pytest.approx(exact[2] / exact.sum(), rel=1e-5)


def test_a_row_without_a_finite_logit_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing left"):
        likeliest(np.full(5, -math.inf, dtype=np.float32), [], SamplingParams(), 2)
