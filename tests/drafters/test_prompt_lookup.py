"""Prompt lookup repeats what followed the same words before: the longest match, the latest of its kind."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.method import Method
from specchat.drafters.prompt_lookup import PromptLookupDrafter
from specchat.drafters.suffix_index import NgramIndex
from tests.drafters.transcripts import SAMPLER, agrees_with_a_fresh_one, emitted, proposed, told


def by_scanning(ids: list[int], smallest: int, largest: int, limit: int) -> list[int]:
    for n in range(largest, smallest - 1, -1):
        for at in range(len(ids) - 1, n - 1, -1):
            if ids[at - n : at] == ids[-n:]:
                copy = list(ids)
                for i in range(limit):
                    copy.append(copy[at + i])
                return copy[len(ids) :]
    return []


@given(
    ids=st.lists(st.integers(0, 2), max_size=80),
    smallest=st.integers(1, 4),
    more=st.integers(0, 4),
    limit=st.integers(0, 8),
)
@settings(max_examples=300, deadline=None)
def test_it_finds_what_a_scan_of_the_text_finds(ids: list[int], smallest: int, more: int, limit: int) -> None:
    drafter = told(PromptLookupDrafter(smallest, smallest + more), ids)
    assert proposed(drafter, limit) == (by_scanning(ids, smallest, smallest + more, limit) if limit else [])


@given(seed=st.integers(0, 100_000), alphabet=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_after_edits_cuts_and_answers_it_proposes_as_a_fresh_one(seed: int, alphabet: int) -> None:
    agrees_with_a_fresh_one(PromptLookupDrafter, seed, alphabet)


@given(seed=st.integers(0, 100_000))
@settings(max_examples=60, deadline=None)
def test_every_occurrence_is_known_after_any_growing_and_cutting(seed: int) -> None:
    chance = random.Random(seed)
    index, ids = NgramIndex((1, 2, 4)), list[int]()
    for _ in range(30):
        if chance.random() < 0.4:
            ids = ids[: chance.randrange(len(ids) + 1)]
            index.cut(len(ids))
        more = [chance.randrange(3) for _ in range(chance.randrange(30))]
        ids = ids + more
        index.extend(more)
        for n in (1, 2, 4):
            every = [at for at in range(len(ids) - 1, n - 1, -1) if ids[at - n : at] == ids[-n:]]
            assert index.occurrences(n, 1000) == every
            assert index.occurrences(n, 2) == every[:2]


def test_the_latest_occurrence_comes_first() -> None:
    assert proposed(told(PromptLookupDrafter(), [1, 2, 3, 4, 9, 1, 2, 3, 5, 9, 1, 2, 3]), 1) == [5]


def test_the_longest_match_comes_before_a_later_shorter_one() -> None:
    ids = [7, 1, 2, 3, 4, 8, 8, 1, 2, 3, 5, 9, 7, 1, 2, 3]
    assert proposed(told(PromptLookupDrafter(), ids), 1) == [4]


def test_it_is_silent_where_only_two_tokens_repeat() -> None:
    assert proposed(told(PromptLookupDrafter(), [1, 2, 9, 8, 1, 2]), 4) == []


def test_a_loop_is_continued_round_and_round() -> None:
    assert proposed(told(PromptLookupDrafter(), [1, 2, 3, 1, 2, 3, 1]), 7) == [2, 3, 1, 2, 3, 1, 2]


def test_what_was_cut_is_never_proposed() -> None:
    drafter = told(PromptLookupDrafter(), [1, 2, 3, 77, 78, 79])
    drafter.begin([1, 2, 3], SAMPLER)
    drafter.commit(emitted(9, 1, 2, 3))
    assert proposed(drafter, 3) == [9, 1, 2]


def test_it_says_its_method_and_refuses_senseless_lengths() -> None:
    assert PromptLookupDrafter().method is Method.PROMPT_LOOKUP
    for smallest, largest in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match="smallest"):
            PromptLookupDrafter(smallest, largest)
