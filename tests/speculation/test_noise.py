from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.speculation.columns import COLUMNS
from specchat.speculation.distribution import Distribution
from specchat.speculation.noise import GumbelNoise, _exponential

from . import chi_square

SLAB = 128 * COLUMNS
IDS = np.arange(40_000)


def uniforms(seed: int, branch: int, position: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """The noise as uniform numbers in (0, 1)."""
    return np.exp(-GumbelNoise(seed, branch).exponentials(position, ids))


@cache
def series(axis: str, length: int = 4000) -> NDArray[np.float64]:
    """Noise along one of its keys, the others fixed."""
    token = np.array([777])
    if axis == "token":
        return uniforms(1, 0, 5, np.arange(length))
    if axis == "column":  # tokens of one group, whose least member is drawn first
        return np.concatenate([uniforms(1, 0, i, 3 + COLUMNS * np.arange(128)) for i in range(length // 128)])
    seed, branch, position = (int(axis == key) for key in ("seed", "branch", "position"))
    return np.array([uniforms(9 + i * seed, i * branch, i * position, token)[0] for i in range(length)])


AXES = ["token", "column", "seed", "branch", "position"]


@pytest.mark.parametrize("axis", AXES)
def test_noise_is_uniform_along_each_key(axis: str) -> None:
    counts, _ = np.histogram(series(axis), bins=64, range=(0, 1))
    assert abs(chi_square.excess(counts, np.full(64, 1 / 64))) < 3.5


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("lag", [1, 2, 7])
def test_neighbours_along_each_key_are_independent(axis: str, lag: int) -> None:
    u = series(axis)
    pairs, _, _ = np.histogram2d(u[:-lag], u[lag:], bins=8, range=[[0, 1], [0, 1]])
    assert abs(chi_square.excess(pairs, np.full(64, 1 / 64))) < 3.5


def test_the_tail_that_decides_races_is_exponential() -> None:
    """P(E < x) = 1 − exp(−x) also far below the mean, where rare tokens win."""
    noise = np.concatenate([GumbelNoise(2).exponentials(i, np.arange(100_000)) for i in range(20)])
    for bound in (1e-2, 1e-3, 1e-4):
        expected = len(noise) * -np.expm1(-bound)
        assert abs(int((noise < bound).sum()) - expected) < 4 * np.sqrt(expected)


def test_rows_of_different_keys_share_nothing() -> None:
    rows = [
        GumbelNoise(seed, branch).exponentials(position, IDS)
        for seed, branch, position in itertools.product((0, 1, 2), (0, 1, 2), (0, 1, 2))
    ]
    for a, b in itertools.combinations(rows, 2):
        assert np.intersect1d(a, b).size == 0
        assert abs(np.corrcoef(np.exp(-a), np.exp(-b))[0, 1]) < 0.03


def test_noise_is_finite_and_positive_for_the_smallest_keys() -> None:
    noise = GumbelNoise(0, 0).exponentials(0, np.arange(1000))
    assert 1e-5 < noise.min() < noise.max() < 20


def test_noise_is_finite_and_positive_for_every_hash() -> None:
    extremes = _exponential(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert extremes.tolist() == pytest.approx([53 * np.log(2), 2.0**-53])


def test_noise_is_the_same_everywhere() -> None:
    """Frozen: a change would change the text of every seed that a user has noted down."""
    noise = GumbelNoise(42, 1).exponentials(1000, np.array([0, 1, 2047, 2048, 151_935, 300_000]))
    frozen = [1.8485755530956176, 0.6952460142090643, 0.9757297769080671]
    frozen += [0.027354602871101273, 0.4629287562675444, 0.943710843028551]
    assert noise.tolist() == pytest.approx(frozen, rel=1e-12)


def test_noise_of_a_token_does_not_depend_on_its_company() -> None:
    noise = GumbelNoise(3)
    some = np.array([5, 2053, 70_000, 299_999])
    assert noise.exponentials(9, some).tolist() == noise.exponentials(9, np.arange(300_000))[some].tolist()


def shape(kind: str, size: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(size)
    spread = {"peaked": 6.0, "model": 2.5, "flat": 0.0}[kind]
    weights = np.exp(rng.normal(0, spread, size))
    if kind == "peaked":
        weights[rng.random(size) < 0.3] = 0
        weights[-1] = weights.max()
    return np.asarray(weights / weights.sum(), dtype=np.float32)


@pytest.mark.parametrize("size", [1, 3, COLUMNS - 1, COLUMNS + 1, 20_000, SLAB + 5000])
@pytest.mark.parametrize("kind", ["peaked", "model", "flat"])
def test_a_dense_race_has_the_winner_of_the_full_one(kind: str, size: int) -> None:
    noise, probs = GumbelNoise(4), shape(kind, size)
    winners = set()
    for position in range(12):
        full = int((probs / noise.exponentials(position, np.arange(size))).argmax())
        assert noise.choose(Distribution(None, probs), position) == full
        held = probs.nonzero()[0]
        assert noise.choose(Distribution(held, probs[held].astype(np.float64)), position) == full
        winners.add(full)
    assert len(winners) > 1 or size < 4


def test_a_dense_race_looks_at_few_tokens() -> None:
    noise, probs = GumbelNoise(4), shape("model", 150_000)
    assert np.mean([noise._contenders(probs, i).size for i in range(20)]) < 3000


def test_chosen_tokens_have_their_probabilities() -> None:
    probs = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625, 0])
    ids = np.array([0, 1, COLUMNS, COLUMNS + 1, 2 * COLUMNS, 99_999])
    noise = GumbelNoise(11)
    tokens = [noise.choose(Distribution(ids, probs), position) for position in range(8000)]
    counts = [tokens.count(token) for token in ids.tolist()]
    assert abs(chi_square.excess(counts, probs)) < 3.5
    dense = np.zeros(2 * COLUMNS + 1, dtype=np.float32)
    dense[ids[:5]] = probs[:5]
    again = [noise.choose(Distribution(None, dense), position) for position in range(200)]
    assert again == tokens[:200]


@pytest.mark.parametrize(("seed", "branch"), [(-1, 0), (0, -1)])
def test_negative_keys_are_refused(seed: int, branch: int) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        GumbelNoise(seed, branch)
