"""Suffix decoding repeats what most often followed, here and in past conversations."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.method import Method
from specchat.drafters.past_index import PastIndex
from specchat.drafters.past_text import PastText
from specchat.drafters.suffix import ORDERS, SuffixDrafter, likeliest_path
from tests.drafters.transcripts import SAMPLER, agrees_with_a_fresh_one, proposed, told

VOCABULARY = "digest"


@given(seed=st.integers(0, 100_000), alphabet=st.integers(1, 4))
@settings(max_examples=150, deadline=None)
def test_after_edits_cuts_and_answers_it_proposes_as_a_fresh_one(seed: int, alphabet: int) -> None:
    agrees_with_a_fresh_one(SuffixDrafter, seed, alphabet)


def test_with_past_text_too_it_proposes_as_a_fresh_one(tmp_path: Path) -> None:
    chance = random.Random(1)
    past = PastText(tmp_path, VOCABULARY)
    past.add("a", [chance.randrange(3) for _ in range(300)])
    for seed in range(20):
        agrees_with_a_fresh_one(lambda: SuffixDrafter(past), seed, 3)


def test_the_more_frequent_continuation_wins_over_the_latest() -> None:
    often, once = [1, 2, 3, 4, 50], [1, 2, 3, 5, 60]
    drafter = told(SuffixDrafter(), [*often, 70, *often, 71, *once, 72, 1, 2, 3])
    assert proposed(drafter, 1) == [4]


def test_of_two_continuations_as_frequent_the_latest_wins() -> None:
    assert proposed(told(SuffixDrafter(), [1, 2, 3, 4, 50, 1, 2, 3, 5, 60, 1, 2, 3]), 1) == [5]


def test_a_long_match_wins_over_many_short_ones() -> None:
    long = [10, 11, 12, 1, 2, 3]
    drafter = told(SuffixDrafter(), [*long, 4, 9, *[1, 2, 3, 5, 6, 7, 8] * 3, *long])
    assert proposed(drafter, 2) == [4, 9]


def test_a_draft_is_no_longer_than_the_match_times_the_factor() -> None:
    ids = [90, *range(1, 40), 91, 20, 21, 22, 23]
    assert proposed(told(SuffixDrafter(), ids), 16) == [24, 25, 26, 27]
    assert proposed(told(SuffixDrafter(factor=2.0), ids), 16) == list(range(24, 32))
    assert proposed(told(SuffixDrafter(), ids), 2) == [24, 25]


def test_a_path_ends_where_it_becomes_unlikely() -> None:
    continuations = [[1, 2, 3], [1, 2, 4], [1, 5, 6], [7, 8, 9]]
    path = likeliest_path(continuations, 3, 0.3)
    assert path.ids == [1, 2]
    assert path.score == 3 / 4 + 3 / 4 * 2 / 3
    assert likeliest_path(continuations, 3, 0.25).ids == [1, 2, 3]
    assert likeliest_path([], 3, 0.1).ids == []


def test_a_past_conversation_is_repeated(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    past.add("a", [1, 2, 3, 4, 5, 6])
    drafter = told(SuffixDrafter(past), [9, 9, 1, 2, 3])
    assert proposed(drafter, 8) == [4, 5, 6]
    assert proposed(told(SuffixDrafter(), [9, 9, 1, 2, 3]), 8) == []


def test_the_source_that_expects_more_wins_and_this_conversation_on_ties(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    past.add("a", [7, 8, 1, 2, 3, 4, 5, 6, 40, 41, 42])
    assert proposed(told(SuffixDrafter(past), [2, 3, 4, 90, 91, 92, 7, 8, 1, 2, 3, 4]), 6) == [5, 6, 40, 41, 42]
    assert proposed(told(SuffixDrafter(past), [2, 3, 4, 90, 91, 92, 2, 3, 4]), 6) == [90, 91, 92]


def test_no_draft_runs_from_one_conversation_into_the_next(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    past.add("a", [5, 1, 2])
    past.add("b", [3, 4, 6, 7, 8])
    drafter = SuffixDrafter(past)
    assert proposed(told(drafter, [1, 2, 3]), 4) == []
    assert proposed(told(drafter, [9, 5, 1, 2]), 4) == []
    assert proposed(told(drafter, [3, 4, 6]), 4) == [7, 8]


def test_between_answers_it_takes_in_what_was_added_changed_and_forgotten(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    past.add("much", list(range(1000, 2000)))
    drafter = told(SuffixDrafter(past), [1, 2, 3])
    assert proposed(drafter, 2) == []
    elsewhere = PastText(tmp_path, VOCABULARY)
    for followers in ([4, 5], [6, 7]):
        elsewhere.add("little", [1, 2, 3, *followers])
        assert proposed(told(drafter, [1, 2, 3]), 2) == followers
    elsewhere.forget("little")
    assert proposed(told(drafter, [1, 2, 3]), 2) == []
    assert proposed(told(drafter, [1500, 1501, 1502]), 2) == [1503, 1504]
    elsewhere.add("much", [1500, 1501, 1502, 8, 9])
    assert proposed(told(drafter, [1500, 1501, 1502]), 2) == [8, 9]


def test_what_replaced_or_forgotten_text_shared_with_others_is_still_found(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    past.add("old", [*range(1000, 1100), 1, 2, 3, 4])
    for name in ("b", "c"):
        past.add(name, [1, 2, 3, 5])
    drafter = told(SuffixDrafter(past), [1, 2, 3])
    assert proposed(drafter, 1) == [5]
    for name in ("b", "c"):
        past.forget(name)
    assert proposed(told(drafter, [1, 2, 3]), 1) == [4]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_an_index_kept_in_step_finds_what_one_built_anew_finds(seed: int) -> None:
    chance = random.Random(seed)
    past = PastText(Path("/dev/null/nowhere"), VOCABULARY, limit_tokens=300)  # kept in memory only
    index = PastIndex(past, ORDERS)
    for _ in range(12):
        name = chance.choice("abcde")
        if chance.random() < 0.2:
            past.forget(name)
        else:
            past.add(name, [chance.randrange(3) for _ in range(chance.randrange(120))])
        if chance.random() < 0.7:
            index.refresh()
            texts = list(past.read(past.revisions()).values())
            for n in (3, 6):
                gram = [chance.randrange(3) for _ in range(n)]
                expected = [
                    t[at:].tolist() for t in texts for at in range(n, len(t) + 1) if t[at - n : at].tolist() == gram
                ]
                found = [text[at:].tolist() for text, at in index.occurrences(gram, 10_000)]
                assert sorted(f[: f.index(-1)] for f in found) == sorted(expected)


def test_the_latest_past_conversation_is_looked_at_first(tmp_path: Path) -> None:
    past = PastText(tmp_path, VOCABULARY)
    for name, follower in (("a", 4), ("b", 5), ("a", 6)):
        past.add(name, [1, 2, 3, follower])
    assert proposed(told(SuffixDrafter(past), [1, 2, 3]), 1) == [6]


def test_a_stored_token_takes_at_most_a_hundred_bytes(tmp_path: Path) -> None:
    chance = random.Random(3)
    # The costliest case: no n-gram twice, and just more of them than a table held before it doubled.
    size = 9_840
    ids = [chance.randrange(150_000) for _ in range(size)]
    tracemalloc.start()
    drafter = SuffixDrafter()
    drafter.begin(ids, SAMPLER)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used <= 100 * size
    past = PastText(tmp_path, VOCABULARY)
    past.add("a", ids)
    index = PastIndex(past, ORDERS)
    tracemalloc.start()
    index.refresh()
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert used <= 100 * size


def test_it_says_its_method() -> None:
    assert SuffixDrafter().method is Method.SUFFIX
