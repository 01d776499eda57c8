"""The rest drafter is right after any edit and cut, and costs an answer nothing where it has no text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.base import Drafter
from specchat.drafters.method import Method
from specchat.drafters.rest import RestDrafter
from specchat.retrieval.datastore import Datastore
from specchat.retrieval.errors import DatastoreError
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Step
from tests.retrieval.letters import DIGEST, store_of, write_store

SAMPLER = Sampler(SamplingParams(), acceptance_rule(AcceptanceMode.EXACT, 1))
VOCABULARY = 6


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Datastore]:
    chance = random.Random(3)
    documents = [[chance.randrange(VOCABULARY) for _ in range(400)] for _ in range(5)]
    path = write_store(tmp_path_factory.mktemp("rest") / "six.rest", documents, size=VOCABULARY, segment_tokens=700)
    with Datastore(path, DIGEST) as opened:
        yield opened


@given(seed=st.integers(0, 10_000), length=st.integers(1, 40))
@settings(max_examples=120, deadline=None)
def test_after_any_history_it_proposes_as_a_fresh_one(store: Datastore, seed: int, length: int) -> None:
    chance = random.Random(seed)
    drafter: Drafter = RestDrafter([store])
    ids = [chance.randrange(VOCABULARY) for _ in range(length)]
    drafter.begin(ids, SAMPLER)
    for _ in range(chance.randrange(1, 12)):
        if chance.random() < 0.3:
            # An edit, a regenerate or a context cut: another transcript that shares some prefix.
            ids = ids[: chance.randrange(0, len(ids) + 1)]
            ids += [chance.randrange(VOCABULARY) for _ in range(chance.randrange(0, 4))]
            drafter.begin(ids, SAMPLER)
        limit = chance.randrange(0, 9)
        draft = drafter.propose(limit)
        fresh = RestDrafter([store])
        fresh.begin(ids, SAMPLER)
        assert draft == fresh.propose(limit)
        assert draft == drafter.propose(limit)
        assert draft.distributions is None
        assert len(draft) <= limit
        assert all(0 <= token < VOCABULARY for token in draft.ids)
        accepted = chance.randrange(0, len(draft.ids) + 1)
        own = chance.randrange(VOCABULARY)
        drafter.commit(Step((*draft.ids[:accepted], own), accepted, min(accepted + 1, len(draft)), len(draft)))
        ids = [*ids, *draft.ids[:accepted], own]


def test_it_types_on_what_it_knows(tmp_path: Path) -> None:
    drafter = RestDrafter([store_of(tmp_path / "poems.rest", "the quick brown fox jumps over the lazy dog")])
    drafter.begin(list(b"I saw the quick b"), SAMPLER)
    assert bytes(drafter.propose(7).ids) == b"rown fo"
    drafter.commit(Step(tuple(b"rown cat"), 5, 6, 7))
    assert not drafter.propose(7).ids
    assert drafter.method is Method.REST
    assert drafter.name == "rest (poems)"
    drafter.close()
    assert not drafter.propose(7).ids


def test_stores_are_opened_at_the_first_begin_only(tmp_path: Path) -> None:
    opened: list[Datastore] = []

    def opening() -> list[Datastore]:
        opened.append(store_of(tmp_path / "a.rest", "hello world"))
        return opened

    drafter = RestDrafter(opening)
    assert not opened
    drafter.begin(list(b"hello"), SAMPLER)
    drafter.begin(list(b"hello w"), SAMPLER)
    assert len(opened) == 1
    assert bytes(drafter.propose(9).ids) == b"orld"
    drafter.close()


def test_without_text_it_proposes_nothing_and_says_why_once() -> None:
    calls = []

    def opening() -> list[Datastore]:
        calls.append(1)
        raise DatastoreError("There is no text here.")

    drafter = RestDrafter(opening)
    for _ in range(2):
        drafter.begin([1, 2, 3], SAMPLER)
        assert not drafter.propose(4).ids
    assert drafter.note == "There is no text here."
    assert len(calls) == 1
