"""Suffix arrays and look-ups are what brute force finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.retrieval.suffix_array import first_rows, interval, longest_match, suffix_array

# Few symbols make long repeats; large ids need three bytes and a rank table.
ALPHABETS = (2, 3, 300)
TEXTS = st.sampled_from(ALPHABETS).flatmap(lambda v: st.lists(st.integers(0, v - 1), max_size=120))


def array(ids: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(ids, np.int32)


def naive(ids: list[int]) -> list[int]:
    return sorted(range(len(ids)), key=lambda at: ids[at:])


def places(ids: list[int], pattern: list[int]) -> list[int]:
    return [at for at in range(len(ids)) if ids[at : at + len(pattern)] == pattern]


@given(TEXTS)
@settings(max_examples=100, deadline=None)
def test_it_sorts_the_suffixes(ids: list[int]) -> None:
    assert suffix_array(array(ids)).tolist() == naive(ids)


@pytest.mark.parametrize("vocabulary", [1, 256, 257, 65_536, 65_537, 300_000])
def test_it_sorts_ids_of_any_vocabulary(vocabulary: int) -> None:
    rng = np.random.default_rng(vocabulary)
    # Every id once, and then some: the width of a rank in bytes changes at 256 and 65,536 different ones.
    ids = np.concatenate([rng.permutation(vocabulary), rng.integers(0, vocabulary, 2000)]).astype(np.int32)
    order = suffix_array(ids)
    assert np.array_equal(np.sort(order), np.arange(len(ids)))
    rows = np.unique(np.concatenate([rng.integers(0, len(ids) - 1, 3000), np.arange(min(100, len(ids) - 1))]))
    # The longest repeat of 2,000 random ids is short for all but the one-letter text.
    width = 64 if vocabulary > 1 else len(ids)
    for row in rows.tolist():
        first, second = (ids[at : at + width].tolist() for at in order[row : row + 2].tolist())
        assert first < second


@pytest.mark.parametrize("high", [0, 300_000])
def test_one_symbol_over_and_over_is_sorted_in_no_time(high: int) -> None:
    n = 200_000
    assert suffix_array(np.full(n, high, np.int32)).tolist() == list(range(n - 1, -1, -1))


def test_negative_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        suffix_array(array([1, -1]))


@given(TEXTS, st.data())
@settings(max_examples=100, deadline=None)
def test_an_interval_holds_every_occurrence_and_nothing_else(ids: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ids)))
    pattern = ids[at : at + data.draw(st.integers(1, 6))] or [1]
    if data.draw(st.booleans()):
        pattern = [*pattern, data.draw(st.integers(0, 300))]
    order = suffix_array(array(ids))
    low, high = interval(array(ids), order, pattern)
    assert sorted(order[low:high].tolist()) == places(ids, pattern)


@given(TEXTS, st.data())
@settings(max_examples=150, deadline=None)
def test_the_longest_match_is_the_longest(ids: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(ids)))
    # What the text is likely to hold, after what it is likely not to.
    query = [*data.draw(st.lists(st.integers(0, 300), max_size=3)), *ids[at : at + data.draw(st.integers(0, 9))]]
    longest, shortest = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 3))
    lengths = [n for n in range(shortest, min(longest, len(query)) + 1) if places(ids, query[len(query) - n :])]
    tokens = array(ids)
    order = suffix_array(tokens)
    for firsts in (None, first_rows(tokens, 301)):
        length, low, high = longest_match(tokens, order, query, longest, shortest, firsts)
        assert length == max(lengths, default=0)
        expected = places(ids, query[len(query) - length :]) if length else []
        assert sorted(order[low:high].tolist()) == expected


def test_ids_outside_the_vocabulary_match_nothing() -> None:
    tokens = array([1, 2, 3])
    order, firsts = suffix_array(tokens), first_rows(tokens, 4)
    for stranger in (-1, 4, 5, 1 << 20):
        assert longest_match(tokens, order, [stranger], 4, 1, firsts) == (0, 0, 0)
    with pytest.raises(ValueError, match="outside"):
        first_rows(tokens, 3)
