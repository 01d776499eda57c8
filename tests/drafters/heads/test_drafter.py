"""A trained head is right after any edit, cut and cancel: as a fresh one whose target read the same text."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.drafters.heads.vocabulary import ReducedSampler
from specchat.llama.errors import DecodeFailed, PrefillCancelled
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Step
from tests.drafters.heads.rig import RIGS, Rig, sampler

TOKENS = range(3, 280)


@pytest.fixture(params=RIGS)
def pair(request: pytest.FixtureRequest, head_files: Path) -> Iterator[tuple[Rig, Rig]]:
    """Two rigs of the same files: one to talk to, one to compare with."""
    make = RIGS[request.param]
    rigs = make(head_files), make(head_files, n_batch=64, capacity=400)
    yield rigs
    for rig in rigs:
        rig.close()


def text(chance: random.Random, n: int) -> list[int]:
    return [chance.choice(TOKENS) for _ in range(n)]


def fresh(rig: Rig, ids: list[int], limit: int) -> list[int]:
    rig.forget()
    rig.begin(ids)
    return list(rig.drafter.propose(limit).ids)


@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_it_proposes_as_a_fresh_one(pair: tuple[Rig, Rig], seed: int) -> None:
    rig, other = pair
    chance = random.Random(seed)
    ids = text(chance, chance.randrange(2, 60))
    rig.begin(ids)
    for _ in range(12):
        what = chance.random()
        if what < 0.2:
            # An edit or a regenerate: another text that shares some prefix, the target's cache as far as it can be.
            ids = [*ids[: chance.randrange(1, len(ids) + 1)], *text(chance, chance.randrange(0, 30))]
            rig.begin(ids)
        elif what < 0.4:
            # A turn that is decoded plainly, of which the drafter is not told, is read when the next one begins.
            for token in text(chance, chance.randrange(1, 24)):
                rig.verify(ids, (), 0)
                ids.append(token)
            rig.begin(ids)
        elif what < 0.5:
            # A step that was stopped after the target had read the draft.
            rig.verify(ids, rig.drafter.propose(3).ids, 0)
            rig.target.truncate(len(ids) - 1)
            rig.begin(ids)
        limit = chance.randrange(0, 6)
        draft = rig.drafter.propose(limit)
        assert list(draft.ids) == fresh(other, ids, limit)
        assert len(draft) == min(limit, rig.head.most_drafted)
        accepted = chance.randrange(0, len(draft) + 1)
        rig.verify(ids, draft.ids, accepted)
        step = Step((*draft.ids[:accepted], chance.choice(TOKENS)), accepted, min(accepted + 1, limit), limit)
        rig.drafter.commit(step)
        ids = [*ids, *step.tokens]
        if len(ids) > 150:
            break
    assert rig.drafter.note is None


def test_every_depth_of_acceptance_leaves_the_head_as_a_fresh_one(pair: tuple[Rig, Rig]) -> None:
    rig, other = pair
    ids = text(random.Random(5), 20)
    rig.begin(ids)
    for accepted in (0, 1, 2, 3, 4, 5, 0, 5):
        draft = rig.drafter.propose(5)
        assert list(draft.ids) == fresh(other, ids, 5)
        rig.verify(ids, draft.ids, accepted)
        step = Step((*draft.ids[:accepted], 77), accepted, min(accepted + 1, 5), 5)
        rig.drafter.commit(step)
        ids = [*ids, *step.tokens]


def test_the_proposed_tokens_were_drawn_from_the_distributions_told(pair: tuple[Rig, Rig]) -> None:
    rig, _ = pair
    rig.begin(text(random.Random(1), 9))
    draft = rig.drafter.propose(6)
    assert draft.distributions is not None
    assert [q.prob(token) > 0 for q, token in zip(draft.distributions, draft.ids, strict=True)] == [True] * min(
        6, rig.head.most_drafted
    )


def test_asked_twice_it_proposes_the_same(pair: tuple[Rig, Rig]) -> None:
    rig, _ = pair
    rig.begin(text(random.Random(2), 30))
    assert list(rig.drafter.propose(4).ids) == list(rig.drafter.propose(4).ids)


def test_what_nobody_holds_any_more_the_target_reads_again(head_files: Path) -> None:
    rig = RIGS["eagle"](head_files)
    ids = text(random.Random(3), 100)
    rig.begin(ids)
    edited = [*ids[:40], *text(random.Random(4), 20)]
    # The feature of the last token that stays was let go long ago.
    assert rig.drafter.keeps(edited) == 39
    # A regenerated answer needs nothing: its first pass makes the feature.
    assert rig.drafter.keeps(ids) >= len(ids) - 1
    rig.close()


@pytest.mark.parametrize("kind", ["eagle", "mtp"])
def test_a_long_prompt_is_read_in_pieces_while_the_target_reads_it(head_files: Path, kind: str) -> None:
    rig = RIGS[kind](head_files)
    ids = text(random.Random(6), 120)
    rig.read(ids)
    # No more than the rows that can wait, and the token behind them.
    assert 0 < rig.drafter.missing(ids) <= 17 + 1
    rig.close()


def test_a_head_that_fails_drafts_nothing_more_and_says_so_once(
    pair: tuple[Rig, Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, _ = pair
    rig.begin(text(random.Random(7), 12))

    def fail(*_: object) -> None:
        raise DecodeFailed("llama.cpp could not compute a draft (status -3). See its log.")

    monkeypatch.setattr(rig.head, "encode", fail)
    assert len(rig.drafter.propose(3)) == 0
    monkeypatch.undo()
    assert len(rig.drafter.propose(3)) == 0
    assert rig.drafter.note is not None
    assert "status -3" in rig.drafter.note
    assert "the same without it" in rig.drafter.note
    rig.drafter.begin([1, 2, 3], sampler())
    assert rig.drafter.keeps([1, 2, 3]) == 3


@pytest.mark.parametrize("kind", ["eagle", "mtp"])
def test_reading_can_be_stopped_and_goes_on_from_there(head_files: Path, kind: str) -> None:
    rig, other = RIGS[kind](head_files), RIGS[kind](head_files)
    ids = text(random.Random(8), 60)
    rig.read(ids)
    rig.drafter._cancelled = lambda: True
    with pytest.raises(PrefillCancelled):
        rig.drafter.begin(ids, sampler())
    rig.drafter._cancelled = lambda: False
    rig.drafter.begin(ids, sampler())
    assert list(rig.drafter.propose(4).ids) == fresh(other, ids, 4)
    rig.close()
    other.close()


def test_drafting_stops_where_the_context_does(pair: tuple[Rig, Rig]) -> None:
    rig, _ = pair
    rig.begin(text(random.Random(9), 190))
    assert len(rig.drafter.propose(6)) == 2


CHAINS = {
    "greedy": SamplingParams(temperature=0),
    "cut": SamplingParams(temperature=0.8, top_k=20, top_p=0.9, min_p=0.02),
    "uncut": SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0),
    "penalised": SamplingParams(temperature=0.8, repeat_penalty=1.3, logit_bias={12: 3.0, 30: -math.inf}),
}


@pytest.mark.parametrize("params", CHAINS.values(), ids=CHAINS)
def test_the_tokens_that_a_head_can_draft_have_the_chances_they_have_in_the_whole_row(params: SamplingParams) -> None:
    chance = np.random.default_rng(3)
    ids = np.sort(chance.choice(5000, 700, replace=False))
    row = np.full(5000, -np.inf, dtype=np.float32)
    row[ids] = chance.normal(0, 3, 700)
    whole = Sampler(params, acceptance_rule(AcceptanceMode.COUPLED, 5))
    reduced = ReducedSampler(whole, ids)
    history = [12, 30, *ids[:9].tolist()]
    p, q = whole.distribution(row, history), reduced.distribution(row, history)
    everyone = np.arange(5000)
    np.testing.assert_allclose(q.probs_at(everyone), p.probs_at(everyone), rtol=1e-5)
    assert [reduced.draw(q, i) for i in range(50)] == [whole.draw(p, i) for i in range(50)]


@pytest.mark.parametrize("kind", RIGS)
def test_each_token_is_read_with_the_feature_of_the_token_before_it(
    head_files: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, other = RIGS[kind](head_files), RIGS[kind](head_files, n_batch=64, capacity=400)
    ids = text(random.Random(10), 50)
    # What one pass of another target says of the same text.
    other.target.prefill(ids)
    features = np.empty((len(ids), other.head.n_features), dtype=np.float32)
    other._copy(features)
    before = np.concatenate([np.zeros((1, features.shape[1]), np.float32), features[:-1]])
    read: dict[int, tuple[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]] = {}
    passes = rig.head._pass

    def listen(tokens: list[int], states: np.ndarray[tuple[int, ...], np.dtype[np.float32]], at: int, n: int) -> None:
        for i, token in enumerate(tokens):
            read[at + i] = token, states[i].copy()
        passes(tokens, states, at, n)

    monkeypatch.setattr(rig.head, "_pass", listen)
    rig.begin(ids)
    rig.drafter.propose(1)
    # An EAGLE-3 head holds a pair one position lower than the token stands in the text.
    shift = rig.head.first
    expected = other.head.encode(before)
    assert sorted(read) == (list(range(len(ids) - shift)) if kind != "assistant" else [len(ids) - 1])
    for position, (token, state) in read.items():
        assert token == ids[position + shift]
        np.testing.assert_allclose(state, expected[position + shift], rtol=1e-4, atol=1e-5)
    rig.close()
    other.close()
