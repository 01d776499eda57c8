from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specchat.speculation.columns import COLUMNS
from specchat.speculation.distribution import Distribution, _first_above


def sparse(**probs: float) -> Distribution:
    """A sparse distribution over ids written as t3=0.5."""
    return Distribution(np.array([int(name[1:]) for name in probs]), np.array(list(probs.values())))


def dense(*probs: float) -> Distribution:
    return Distribution(None, np.array(probs, dtype=np.float32))


def as_dict(distribution: Distribution) -> dict[int, float]:
    ids = range(len(distribution.probs)) if distribution.ids is None else distribution.ids.tolist()
    return {i: p for i, p in zip(ids, distribution.probs.tolist(), strict=True) if p > 0}


P = (sparse(t1=0.25, t4=0.75), dense(0, 0.25, 0, 0, 0.75), sparse(t0=0, t1=0.25, t4=0.75, t9=0))


@pytest.mark.parametrize("p", P)
def test_prob(p: Distribution) -> None:
    assert [p.prob(token) for token in (-1, 0, 1, 4, 5, 9, 10**7)] == [0, 0, 0.25, 0.75, 0, 0, 0]


@pytest.mark.parametrize("p", P)
def test_probs_at(p: Distribution) -> None:
    assert p.probs_at(np.array([0, 1, 2, 4, 5, 9, 10**7])).tolist() == [0, 0.25, 0, 0.75, 0, 0, 0]


@pytest.mark.parametrize("p", P)
def test_sample_walks_the_cumulative_distribution(p: Distribution) -> None:
    below = math.nextafter(1, 0)
    assert [p.sample(u) for u in (0.0, 0.2499, 0.2501, 0.999, below)] == [1, 1, 4, 4, 4]


@pytest.mark.parametrize("u", [-0.1, 1.0, math.nan])
def test_sample_refuses_numbers_that_are_no_position(u: float) -> None:
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        P[0].sample(u)


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 700, COLUMNS, COLUMNS + 1, 3 * COLUMNS + 5]))
def test_sample_never_gives_a_token_of_probability_0(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.random(size) * (rng.random(size) < 0.02)
    weights[rng.integers(size)] = 1
    probs = weights / weights.sum()
    held = probs.nonzero()[0]
    for p in (Distribution(None, probs.astype(np.float32)), Distribution(np.arange(size), probs)):
        hit = [p.sample(u) for u in (0.0, math.nextafter(1, 0), *rng.random(20))]
        assert all(p.prob(token) > 0 for token in hit)
        assert set(hit) <= set(held.tolist())


def test_dense_sampling_gives_each_token_its_share_of_positions() -> None:
    """All of [0, 1), on a grid finer than the probabilities: the measure of each token's positions is its own."""
    size = 2 * COLUMNS + 100
    probs = np.zeros(size, dtype=np.float32)
    held = {0: 1 / 8, 7: 1 / 4, COLUMNS + 7: 1 / 16, 2 * COLUMNS + 7: 1 / 16, 2 * COLUMNS + 99: 1 / 2}
    for token, p in held.items():
        probs[token] = p
    tokens = [Distribution(None, probs).sample((i + 0.5) / 64) for i in range(64)]
    assert {token: tokens.count(token) / 64 for token in held} == held


def test_a_position_that_rounding_lifts_to_the_end_is_the_last_token_with_any_weight() -> None:
    assert _first_above(np.array([0.0, 0.5, 1.0, 1.0]), 1.0) == 2
    assert _first_above(np.array([0.0, 0.5, 1.0, 1.0]), 0.0) == 1


def test_one_hot() -> None:
    certain = Distribution.one_hot(5)
    assert certain.sample(0.0) == certain.sample(math.nextafter(1, 0)) == certain.argmax() == 5
    assert (certain.prob(5), certain.prob(4), certain.entropy()) == (1, 0, 0)


Q = (sparse(t1=0.5, t3=0.5), dense(0, 0.5, 0, 0.5, 0), dense(0, 0.5, 0, 0.5), dense(0, 0.5, 0, 0.5, 0, 0, 0))


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("q", Q)
def test_residual(p: Distribution, q: Distribution) -> None:
    assert as_dict(p.residual(q)) == {4: 1}
    assert p.excess(q) == 0.75
    assert p.excess(q, scale=0.5) == 0.375


@pytest.mark.parametrize("p", P)
def test_residual_is_normalised(p: Distribution) -> None:
    q = sparse(t1=0.125, t2=0.625, t4=0.25)
    assert as_dict(p.residual(q)) == pytest.approx({1: 0.2, 4: 0.8})
    assert as_dict(p.residual(q, scale=0.75)) == pytest.approx({1: 1 / 6, 4: 5 / 6}, rel=1e-6)


@pytest.mark.parametrize("p", P)
def test_residual_of_a_certain_token_is_p_without_it(p: Distribution) -> None:
    assert as_dict(p.residual(4)) == as_dict(p.residual(Distribution.one_hot(4))) == {1: 1}
    assert as_dict(p.residual(2)) == as_dict(p)


@pytest.mark.parametrize("p", P)
@pytest.mark.parametrize("q", P)
def test_equal_distributions_leave_p_itself(p: Distribution, q: Distribution) -> None:
    assert p.residual(q) is p


def test_a_residual_of_rounding_alone_leaves_p_itself() -> None:
    p = Distribution(None, np.array([1 / 3, 2 / 3], dtype=np.float32))
    q = Distribution(np.array([0, 1]), np.array([1 / 3, 2 / 3]))
    assert p.residual(q) is p
    assert q.residual(p) is q
    assert as_dict(p.residual(sparse(t0=1 / 3 + 1e-5, t1=2 / 3 - 1e-5))) == {1: 1}


def test_residual_leaves_its_arguments_alone() -> None:
    for p in P:
        for q in Q:
            before = p.probs.copy(), q.probs.copy()
            p.residual(q)
            p.residual(4)
            assert np.array_equal(p.probs, before[0])
            assert np.array_equal(q.probs, before[1])


@pytest.mark.parametrize("p", P)
def test_entropy_and_argmax(p: Distribution) -> None:
    assert p.entropy() == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    assert p.argmax() == 4


def test_argmax_takes_the_lowest_of_equals() -> None:
    assert dense(0.2, 0.4, 0.4).argmax() == sparse(t0=0.2, t1=0.4, t9=0.4).argmax() == 1
