"""What is proposed is what most often followed, and never runs out of its document."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specchat.retrieval.datastore import Datastore
from specchat.retrieval.lookup import Continuation, continuation
from tests.retrieval.letters import DIGEST, store_of, write_store


def following(store: Datastore, text: str, limit: int = 8) -> str:
    return bytes(continuation([store], list(text.encode()), limit).ids).decode()


def test_the_most_frequent_continuation_wins(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "say abcX", "say abcY", "and abcY", "or abcZ") as store:
        assert following(store, "they say abc")[:1] in {"X", "Y"}
        assert following(store, "abc") == "Y"
        assert following(store, "say a", 2) == "bc"


def test_a_draft_ends_with_its_document(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "hello wonderful world", "another text") as store:
        assert following(store, "hello wonderful w", 64) == "orld"


def test_a_match_at_the_end_of_a_document_gives_way_to_a_shorter_one(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "one two three", "wo three and so on") as store:
        found = continuation([store], list(b"one two three"), 2)
        assert (found.matched, bytes(found.ids)) == (8, b" a")


def test_it_stops_where_the_occurrences_part(tmp_path: Path) -> None:
    texts = [f"the same start {chr(ord('a') + i)}{i}" for i in range(20)]
    with store_of(tmp_path / "a.rest", *texts) as store:
        assert following(store, "the same ", 20) == "start "


def test_what_followed_few_tokens_once_is_not_drafted_and_what_followed_many_is(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "0123456789abcdefghij and more") as store:
        assert continuation([store], list(b"xx89"), 8) == Continuation(2, 1, ())
        drafted = [len(following(store, "0123456789abcdefghij"[20 - n :], 16)) for n in range(2, 17)]
        assert drafted == sorted(drafted)
        assert drafted[-1] >= 8


def test_nothing_is_found_where_nothing_matches(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "hello world") as store:
        assert continuation([store], list(b"xyz"), 8) == Continuation()
        assert continuation([store], [], 8) == Continuation()
        assert continuation([], list(b"hello"), 8) == Continuation()
        # One token alone says too little.
        assert continuation([store], list(b"xh"), 8) == Continuation()
        assert continuation([store], [-5, 1 << 30, 256, 300], 8) == Continuation()


def test_all_stores_are_searched_and_the_longest_match_counts(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "my cat sleeps") as first, store_of(tmp_path / "b.rest", "a cat purrs") as other:
        assert bytes(continuation([first, other], list(b"a cat "), 3).ids) == b"pur"
        assert bytes(continuation([other, first], list(b"my cat "), 3).ids) == b"sle"
        assert continuation([first, other], list(b"the cat "), 8).occurrences == 2


DOCUMENTS = st.lists(st.lists(st.integers(0, 3), max_size=60), min_size=1, max_size=4)


@given(DOCUMENTS, st.lists(st.integers(0, 3), max_size=20), st.integers(1, 80), st.integers(0, 6))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_it_finds_what_brute_force_finds(
    tmp_path: Path, documents: list[list[int]], ids: list[int], segment_tokens: int, limit: int
) -> None:
    path = write_store(tmp_path / "a.rest", documents, size=4, segment_tokens=segment_tokens)
    stored = [token for document in documents for token in (*document, 4)]
    segments = [stored[at : at + segment_tokens] for at in range(0, len(stored), segment_tokens)]
    with Datastore(path, DIGEST) as store:
        assert [segment.tokens.tolist() for segment in store.segments] == segments
        found = continuation([store], ids, limit)
    for length in range(min(16, len(ids)), 1, -1):
        end = ids[len(ids) - length :]
        after = [
            segment[at + length : at + length + limit]
            for segment in segments
            for at in range(len(segment))
            if segment[at : at + length] == end
        ]
        follow = [each[: each.index(4)] if 4 in each else each for each in after]
        if after and (any(follow) or not limit):
            break
    else:
        assert found == Continuation()
        return
    if len(after) > 40 and found.matched < length:
        # Only some were looked at, and all of those stand at an end.
        return
    assert (found.matched, found.occurrences) == (length, len(after))
    chain = list(found.ids)
    assert any(each[: len(chain)] == chain for each in follow)
    starts = [each[0] for each in follow if each]
    if chain and len(after) <= 40:
        assert starts.count(chain[0]) == max(map(starts.count, starts))


@pytest.mark.parametrize("segment_tokens", [7, 100, 1 << 16])
def test_segments_change_no_majority(tmp_path: Path, segment_tokens: int) -> None:
    texts = ["red fox. "] * 3 + ["red cat. "] * 9
    with store_of(tmp_path / "a.rest", *texts, segment_tokens=segment_tokens) as store:
        assert following(store, "red ", 1) == "c"
