from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from specchat.speculation.columns import COLUMNS
from specchat.speculation.distribution import Distribution, SamplingParams, warp

from . import reference

PLAIN = SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0)
COOL = replace(PLAIN, temperature=0.7)
GREEDY = SamplingParams(temperature=0)


def row(logits: Sequence[float] | NDArray[np.floating]) -> NDArray[np.float32]:
    """A logits row as the engine hands it over: float32 memory that is not ours to write."""
    array = np.array(logits, dtype=np.float32)
    array.flags.writeable = False
    return array


def as_dict(distribution: Distribution) -> dict[int, float]:
    ids = range(len(distribution.probs)) if distribution.ids is None else distribution.ids.tolist()
    return {i: p for i, p in zip(ids, distribution.probs.tolist(), strict=True) if p > 0}


def check(logits: NDArray[np.float32], history: Sequence[int], params: SamplingParams) -> None:
    expected = reference.warped(logits.tolist(), history, params)
    actual = warp(logits, history, params)
    seen = as_dict(actual)
    # Dense rows are single precision: what exp of a few dozen loses there, and what underflows.
    assert {i for i in expected if expected[i] > 1e-30} <= seen.keys() <= expected.keys()
    assert seen == pytest.approx({i: p for i, p in expected.items() if i in seen}, rel=2e-5, abs=1e-9)
    assert actual.probs.sum() == pytest.approx(1, abs=1e-5)
    if actual.ids is not None:
        assert (np.diff(actual.ids) > 0).all()
        assert set(actual.ids.tolist()) == expected.keys()


some_params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0, 0.1, 0.8, 1, 1.7]),
    top_k=st.sampled_from([0, 0, 1, 2, 3, 5, 40, 10_000]),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
    min_p=st.one_of(st.just(0.0), st.floats(0, 1)),
    repeat_penalty=st.sampled_from([1, 1, 1.3, 0.5]),
    repeat_last_n=st.sampled_from([0, 1, 3, 64]),
    presence_penalty=st.sampled_from([0, 0, 0.7, -2]),
    frequency_penalty=st.sampled_from([0, 0, 0.3, -0.5]),
    logit_bias=st.dictionaries(st.integers(0, 30), st.sampled_from([-math.inf, -3.0, 2.5, 100.0]), max_size=3),
)
# Few distinct values make ties; −inf is what masks leave.
some_logits = st.lists(
    st.one_of(
        st.integers(-8, 8).map(float),
        st.floats(-30, 30, width=32),
        st.just(-math.inf),
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=300, deadline=None)
@given(some_logits, st.lists(st.integers(0, 30), max_size=12), some_params)
def test_small_rows_agree_with_the_reference(logits: list[float], history: list[int], params: SamplingParams) -> None:
    if max(reference.adjusted(logits, history, params)) == -math.inf:
        with pytest.raises(ValueError, match="nothing left"):
            warp(row(logits), history, params)
        return
    try:
        check(row(logits), history, params)
    except reference.BoundaryError:
        reject()


SIZES = [COLUMNS - 1, 2 * COLUMNS, 4 * COLUMNS + 17]
TRUNCATIONS = [
    replace(COOL, top_k=40, top_p=0.95, min_p=0.05),
    replace(COOL, top_k=7),
    replace(COOL, top_k=1000),
    replace(COOL, top_k=3000),
    replace(COOL, top_k=10**6),
    replace(COOL, top_p=0.95),
    replace(COOL, top_p=0.9),
    replace(COOL, top_p=0.5, min_p=0.01),
    replace(COOL, min_p=0.02),
    replace(COOL, min_p=1),
    replace(COOL, top_k=300, top_p=0.7),
    COOL,
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("params", TRUNCATIONS, ids=lambda p: f"k{p.top_k}-p{p.top_p}-m{p.min_p}")
@pytest.mark.parametrize("kind", ["smooth", "ties", "masked", "flat"])
def test_long_rows_agree_with_the_reference(size: int, params: SamplingParams, kind: str) -> None:
    rng = np.random.default_rng(size)
    logits = rng.normal(0, 2.5, size).astype(np.float32)
    logits[rng.integers(size, size=9)] += 12
    if kind == "ties":
        logits = np.round(logits, 0)
    elif kind == "masked":
        logits[rng.random(size) < 0.999] = -np.inf
        logits[size - 1] = 1  # in the incomplete last line of the grid, where there is one
    elif kind == "flat":
        logits = np.full(size, -3, dtype=np.float32)
        logits[[0, size // 2, size - 1]] = 2
    check(row(logits), [], params)


def test_a_nucleus_of_many_tokens_is_found() -> None:
    """Wider than the first guess, so that the search must grow, twice."""
    logits = row(np.linspace(0, 1, 30_000))
    check(logits, [], replace(PLAIN, top_p=0.3))


def test_truncation_looks_at_untempered_probabilities() -> None:
    """Temperature comes last: at any temperature the same tokens survive."""
    logits = row([3.0, 2.0, 1.0, 0.0, -1.0])
    settings = [SamplingParams(temperature, top_k=0, top_p=0.8, min_p=0.1) for temperature in (0.2, 1, 5)]
    kept = [as_dict(warp(logits, [], params)).keys() for params in settings]
    assert kept[0] == kept[1] == kept[2] == {0, 1}


def test_top_p_sees_probabilities_renormalised_after_top_k() -> None:
    logits = row(np.log([0.3, 0.25, 0.2, 0.15, 0.1]))
    assert as_dict(warp(logits, [], SamplingParams(1, top_k=0, top_p=0.53, min_p=0))).keys() == {0, 1}
    assert as_dict(warp(logits, [], SamplingParams(1, top_k=2, top_p=0.53, min_p=0))).keys() == {0}


def test_ties_at_the_cut_keep_the_lowest_ids() -> None:
    size = 3 * COLUMNS
    logits = np.zeros(size, dtype=np.float32)
    logits[size - 1] = 1
    params = SamplingParams(1, top_k=4, top_p=1, min_p=0)
    assert as_dict(warp(row(logits), [], params)).keys() == {0, 1, 2, size - 1}
    assert as_dict(warp(row([1.0, 2.0, 2.0, 2.0]), [], SamplingParams(1, top_k=2, min_p=0))).keys() == {1, 2}


def test_temperature_0_takes_the_best_token_after_bias_and_penalties() -> None:
    logits = row([4.0, 5.0, 3.0])
    for params, best in (
        (GREEDY, 1),
        (replace(GREEDY, repeat_penalty=1.5), 0),
        (replace(GREEDY, frequency_penalty=0.6), 0),
        (replace(GREEDY, presence_penalty=0.6), 1),
        (replace(GREEDY, logit_bias={0: -math.inf, 1: -3}), 2),
    ):
        assert as_dict(warp(logits, [1, 1], params)) == {best: 1}
    assert as_dict(warp(row([1.0, 7.0, 7.0]), [], GREEDY)) == {1: 1}


def test_penalties_see_the_drafted_prefix_and_only_the_latest_tokens() -> None:
    logits = row([2.0, 2.0, -1.0])
    params = SamplingParams(1, 0, 1, 0, repeat_penalty=2, repeat_last_n=2)
    history, draft = [0, 0], [1, 2]
    rows = [warp(logits, history + draft[:i], params) for i in range(3)]
    unnormalised = [[1.0, 2.0, -1.0], [1.0, 1.0, -1.0], [2.0, 1.0, -2.0]]
    for actual, values in zip(rows, unnormalised, strict=True):
        weights = np.exp(values)
        assert actual.probs == pytest.approx(weights / weights.sum(), rel=1e-6)


def test_the_order_is_bias_then_penalties() -> None:
    """A biased logit is what the repeat penalty divides."""
    params = SamplingParams(1, 0, 1, 0, repeat_penalty=4, logit_bias={0: 7.0})
    expected = np.exp([2.0, 0.0])
    assert warp(row([1.0, 0.0]), [0], params).probs == pytest.approx(expected / expected.sum())


def test_ids_outside_the_row_are_passed_over() -> None:
    """A draft model with a smaller vocabulary is shown the target's tokens, and the user's bias."""
    params = SamplingParams(1, 0, 1, 0, repeat_penalty=2, logit_bias={99: 3.0})
    assert warp(row([1.0, 1.0]), [50, 2, -1], params).probs.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("params", [PLAIN, SamplingParams(), GREEDY, replace(PLAIN, top_p=0.9)])
@pytest.mark.parametrize("place", [0, 5, COLUMNS + 3, 3 * COLUMNS])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_with_nan_or_inf_is_refused(params: SamplingParams, place: int, bad: float) -> None:
    logits = np.zeros(3 * COLUMNS + 1)
    logits[place] = bad
    with pytest.raises(ValueError, match=rf"returned the logit {bad}"):
        warp(row(logits), [], params)


@pytest.mark.parametrize("params", [PLAIN, SamplingParams(), GREEDY, replace(PLAIN, top_p=0.9)])
@pytest.mark.parametrize("size", [1, 3, 2 * COLUMNS + 5])
def test_a_row_without_any_token_is_refused(params: SamplingParams, size: int) -> None:
    with pytest.raises(ValueError, match="nothing left"):
        warp(row(np.full(size, -np.inf)), [], params)


@pytest.mark.parametrize("shape", [(0,), (2, 3), ()])
def test_what_is_no_row_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one axis"):
        warp(np.zeros(shape, dtype=np.float32), [], PLAIN)


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-12, 1e30])
@pytest.mark.parametrize("top_k", [0, 3])
@pytest.mark.filterwarnings("error")
def test_extreme_temperatures_neither_overflow_nor_warn(temperature: float, top_k: int) -> None:
    params = SamplingParams(temperature, top_k, 1, 0)
    shares = warp(row([1.0, 3.0, 3.0, -math.inf]), [], params)
    expected = [1 / 3, 1 / 3, 1 / 3, 0] if temperature > 1 else [0, 0.5, 0.5, 0]
    assert [shares.prob(token) for token in range(4)] == pytest.approx(expected)


def test_min_p_decides_as_real_numbers_would() -> None:
    """The bound lies between two float32 values; one ulp more or less is another token."""
    edge = np.float32(5.0 + math.log(0.3))
    logits = row(np.array([5, np.nextafter(edge, np.float32(9)), edge, np.nextafter(edge, np.float32(-9))]))
    expected = {i for i, x in enumerate(logits.tolist()) if x >= 5.0 + math.log(0.3)}
    assert 2 <= len(expected) <= 3
    for top_k in (0, 4):
        assert as_dict(warp(logits, [], SamplingParams(1, top_k, 1, 0.3))).keys() == expected
