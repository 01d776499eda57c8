"""The tree that a drafter proposes is the most promising one of its size, and one that the target can read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest

from specchat.drafters.best_first import Candidates, Path, best_first, level_tree
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft
from specchat.speculation.tree import children

WIDTH, LEVELS = 3, 4
GREEDY = Sampler(SamplingParams(temperature=0), acceptance_rule(AcceptanceMode.EXACT, 1))


def never(_token: int) -> bool:
    return False


def table(seed: int, sharpness: float) -> Callable[[Path], Candidates]:
    """A drafter that knows `WIDTH` tokens at any place."""

    def below(path: Path) -> Candidates:
        chances = np.random.default_rng([seed, *path]).dirichlet(np.full(WIDTH, sharpness))
        ranked = sorted(enumerate(chances.tolist()), key=lambda pair: -pair[1])
        return ranked if len(path) < LEVELS else ()

    return below


def promise(path: Sequence[int], below: Callable[[Path], Candidates]) -> float:
    return math.prod(dict(below(tuple(path[:level])))[token] for level, token in enumerate(path))


def paths(draft: Draft) -> list[Path]:
    return [tuple(draft.prefix(row + 1)) for row in range(len(draft))]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
def test_no_other_tree_of_its_size_promises_more_tokens(seed: int, sharpness: float) -> None:
    below = table(seed, sharpness)
    every = [path for length in range(1, LEVELS + 1) for path in product(range(WIDTH), repeat=length)]
    best = sorted((promise(path, below) for path in every), reverse=True)
    for size in (1, 2, 5, 7, 20):
        draft = best_first(size, 100, below, never)
        assert len(set(paths(draft))) == len(draft) == size
        assert sum(promise(path, below) for path in paths(draft)) == pytest.approx(sum(best[:size]))


@pytest.mark.parametrize("leaves", [1, 2, 3, 4])
def test_it_never_ends_in_more_tokens_than_the_target_has_sequences_for(leaves: int) -> None:
    for seed in range(20):
        draft = best_first(7, leaves, table(seed, 2.0), never)
        if draft.parents is None:
            continue
        inner = set(draft.parents)
        assert sum(node not in inner for node in range(len(draft))) <= leaves
        assert len(children(draft)) == len(inner)


def test_one_that_may_not_branch_is_a_chain() -> None:
    draft = best_first(3, 1, table(3, 1.0), never)
    assert draft.parents is None
    assert len(draft) == 3


def test_a_drafter_that_is_sure_of_itself_drafts_a_chain_and_is_asked_once_a_token() -> None:
    asked: list[Path] = []

    def below(path: Path) -> Candidates:
        asked.append(path)
        return [(len(path), 0.99), (40, 0.01)]

    draft = best_first(5, 4, below, never)
    assert (list(draft.ids), draft.parents) == ([0, 1, 2, 3, 4], None)
    assert asked == [(), (0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]


def test_the_best_path_comes_first_and_parents_before_their_children() -> None:
    for seed in range(20):
        below = table(seed, 1.0)
        draft = best_first(7, 4, below, never)
        first = [0]
        for node in range(1, len(draft)):
            if draft.parents is not None and draft.parents[node] != node - 1:
                break
            first.append(node)
        likeliest: Path = ()
        for _ in first:
            likeliest = (*likeliest, below(likeliest)[0][0])
        assert tuple(draft.ids[: len(first)]) == likeliest


def test_nothing_follows_a_token_that_ends_the_answer() -> None:
    draft = best_first(7, 4, lambda _path: [(2, 0.6), (5, 0.4)], lambda token: token == 2)
    assert all(2 not in path[:-1] for path in paths(draft))
    assert (2,) in paths(draft)
    assert len(best_first(5, 4, lambda _path: [(2, 1.0)], lambda token: token == 2)) == 1


def test_of_independent_levels_the_best_combinations_are_tried_and_each_row_is_made_once() -> None:
    chances = [[0.5, 0.4, 0.1], [0.7, 0.2, 0.1], [0.4, 0.35, 0.25]]
    made: list[int] = []

    def row(level: int) -> Callable[[], np.ndarray[tuple[int], np.dtype[np.float32]]]:
        def make() -> np.ndarray[tuple[int], np.dtype[np.float32]]:
            made.append(level)
            return np.log(np.array(chances[level], dtype=np.float32))

        return make

    draft = level_tree([9], 6, 10, [row(level) for level in range(3)], GREEDY, never)
    every = [path for length in range(1, 4) for path in product(range(3), repeat=length)]
    best = sorted(every, key=lambda path: -math.prod(chances[i][token] for i, token in enumerate(path)))[:6]
    assert set(paths(draft)) == set(best)
    assert made == [0, 1, 2]


def test_levels_end_where_there_are_no_more_rows() -> None:
    row = np.zeros(4, dtype=np.float32)
    draft = level_tree([9], 50, 50, [lambda: row, lambda: row], GREEDY, never)
    assert len(draft) == 4 + 16
    assert max(map(len, paths(draft))) == 2
