"""A head drafts trees as well as chains: every branch as if it were the only one, and right after any outcome."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specchat.drafters.heads.expansion import Expansion
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.drafters.heads.rig import RIGS, Rig

TOKENS = range(3, 280)
KINDS = ("eagle", "p-eagle", "dflash")
"""The others draft chains only."""
GREEDY = Sampler(SamplingParams(temperature=0, repeat_penalty=1.1), acceptance_rule(AcceptanceMode.EXACT, 5))
LEAVES = 4


@pytest.fixture(params=KINDS)
def pair(request: pytest.FixtureRequest, head_files: Path) -> Iterator[tuple[Rig, Rig]]:
    make = RIGS[request.param]
    rigs = make(head_files, leaves=LEAVES), make(head_files, n_batch=64, capacity=400, leaves=LEAVES)
    yield rigs
    for rig in rigs:
        rig.close()


def text(chance: random.Random, n: int) -> list[int]:
    return [chance.choice(TOKENS) for _ in range(n)]


def begin(rig: Rig, ids: list[int]) -> None:
    rig.read(ids)
    rig.drafter.begin(ids, GREEDY)


def fresh(rig: Rig, ids: list[int], limit: int) -> Draft:
    rig.forget()
    begin(rig, ids)
    return rig.drafter.propose(limit)


def some_path(draft: Draft, chance: random.Random) -> list[int]:
    """The nodes of a path from the root to any node of the draft, which may be no node at all."""
    parents = draft.parents or [node - 1 for node in range(len(draft))]
    node = chance.randrange(-1, len(draft))
    path: list[int] = []
    while node >= 0:
        path.insert(0, node)
        node = parents[node]
    return path


@pytest.fixture
def rankings(monkeypatch: pytest.MonkeyPatch) -> list[dict[int, float]]:
    """What was ranked since this was last cleared."""
    found: list[dict[int, float]] = []
    rank = Sampler.ranked

    def telling(self: Sampler, *arguments: Any) -> list[tuple[int, float]]:
        ranked = rank(self, *arguments)
        found.append(dict(ranked))
        return ranked

    monkeypatch.setattr(Sampler, "ranked", telling)
    return found


def same_but_for_rounding(some: list[dict[int, float]], others: list[dict[int, float]]) -> bool:
    """Whether the head believes the same; where two tokens are as likely, trees may go on in another order."""
    first, second = some[0], others[0]
    shared = first.keys() & second.keys()
    return len(shared) >= LEAVES - 1 and all(abs(first[token] - second[token]) < 2e-3 for token in shared)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_path_is_kept_it_goes_on_as_a_fresh_one(
    pair: tuple[Rig, Rig], seed: int, rankings: list[dict[int, float]]
) -> None:
    rig, other = pair
    chance = random.Random(seed)
    ids = text(chance, chance.randrange(2, 50))
    begin(rig, ids)
    branched = 0
    while len(ids) < 140:
        limit = chance.randrange(2, 8)
        rankings.clear()
        draft = rig.drafter.propose(limit)
        believed = rankings[:]
        rankings.clear()
        assert len(fresh(other, ids, limit)) == len(draft)
        assert same_but_for_rounding(believed, rankings)
        branched += draft.parents is not None
        path = some_path(draft, chance)
        parents = draft.parents or [node - 1 for node in range(len(draft))]
        rig.target.decode_tree([ids[-1], *draft.ids], [-1, *(parent + 1 for parent in parents)])
        rig.target.keep_path([0, *(node + 1 for node in path)])
        tokens = (*(int(draft.ids[node]) for node in path), chance.choice(TOKENS))
        rig.drafter.commit(Step(tokens, len(path), len(path), len(draft), tuple(path)))
        ids = [*ids, *tokens]
    assert branched > 5
    assert rig.drafter.note is None


def test_the_logits_after_a_path_are_those_of_a_head_that_read_nothing_else(head_files: Path) -> None:
    rig, other = RIGS["eagle"](head_files), RIGS["eagle"](head_files)
    ids = text(random.Random(3), 30)
    asked = [(), (5,), (7,), (5, 8), (5, 9), (7, 11), (5, 8, 12), (5, 9, 13), (5, 9, 13, 4)]

    def expansion(of: Rig) -> Expansion:
        of.forget()
        begin(of, ids)
        pending = of.drafter._pending()
        return Expansion(
            of.head,
            ids[pending.start :],
            of.drafter._states(pending),
            lambda drafted: of.drafter._cut(pending.stop + drafted),
        )

    whole = expansion(rig)
    for path in asked:
        row = whole.logits(path).copy()
        alone = expansion(other)
        for length in range(len(path)):
            alone.logits(path[:length])
        np.testing.assert_array_equal(row, alone.logits(path))
    rig.close()
    other.close()


def test_with_shared_noise_a_chain_is_drawn_and_told_with_its_distributions(head_files: Path) -> None:
    rig = RIGS["eagle"](head_files, leaves=LEAVES)
    rig.begin(text(random.Random(4), 20))
    draft = rig.drafter.propose(6)
    assert draft.parents is None
    assert draft.distributions is not None
    rig.close()
