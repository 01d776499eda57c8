"""What most often followed the end of a text in the datastores (REST, He et al. 2311.08252, section 3)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from specchat.retrieval.datastore import Datastore, Segment
from specchat.retrieval.suffix_array import longest_match

LONGEST_MATCH: Final = 16
SHORTEST_MATCH: Final = 2
_SAMPLES: Final = 40
"""Occurrences looked at, spread evenly: rows stand in the order of what follows, so frequent goes on as frequent."""
_LEAST_CHANCE: Final = 0.2
"""A chain ends where it is less likely than this to be taken whole: every draft token costs a row to check."""
_DOUBT: Final = 30.0
"""How little a match of few tokens says: see `_chance`."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """What was found for the end of a text."""

    matched: int = 0
    """Tokens of the text's end that occur."""
    occurrences: int = 0
    ids: tuple[int, ...] = ()
    """The chain of most frequent next tokens."""


def continuation(stores: Iterable[Datastore], ids: Sequence[int], limit: int) -> Continuation:
    """Up to `limit` tokens that followed the longest end of `ids` (2 to 16 tokens) that occurs in `stores`.

    Where that occurs only at the ends of documents, the next shorter one that is followed by something counts.
    Tokens that are hardly worth a look are left out, so that there may be none though something matched.
    """
    stores = list(stores)
    segments = [segment for store in stores for segment in store.segments]
    size = min((store.description.vocabulary_size for store in stores), default=0)
    longest = LONGEST_MATCH
    while longest >= SHORTEST_MATCH:
        length, places = _places(segments, ids, longest)
        if not length:
            break
        followers = _followers(places, length, limit)
        if limit <= 0 or any(follower and 0 <= follower[0] < size for follower in followers):
            chain = _chain(followers, length, limit, size)
            return Continuation(length, sum(high - low for _, low, high in places), chain)
        longest = length - 1
    return Continuation()


_Place = tuple[Segment, int, int]
"""A segment and rows of its suffix array, low to high (excluded)."""


def _places(segments: Iterable[Segment], ids: Sequence[int], longest: int) -> tuple[int, list[_Place]]:
    """The length of the longest match in any segment, and all rows of that length."""
    best, places = 0, list[_Place]()
    for segment in segments:
        # Where one matched, the next seldom matches further: that is one look-up less than half of all lengths.
        near = min(longest, best + 1) if best else longest
        length, low, high = _match(segment, ids, near, max(best, SHORTEST_MATCH))
        if best and length == near < longest:
            length, low, high = _match(segment, ids, longest, near)
        if length > best:
            best, places = length, []
        if length:
            places.append((segment, low, high))
    return best, places


def _match(segment: Segment, ids: Sequence[int], longest: int, shortest: int) -> tuple[int, int, int]:
    return longest_match(segment.tokens, segment.order, ids, longest, shortest, segment.firsts)


def _followers(places: Sequence[_Place], length: int, limit: int) -> list[list[int]]:
    """What follows at up to `_SAMPLES` occurrences, each at most `limit` tokens, the marks between documents too."""
    total = sum(high - low for _, low, high in places)
    wanted = min(_SAMPLES, total)
    # Sample i is occurrence number (2i + 1) · total / 2 · wanted of all, counted through the places.
    numbers = [(2 * i + 1) * total // (2 * wanted) for i in range(wanted)]
    followers: list[list[int]] = []
    before = 0
    for segment, low, high in places:
        tokens, order, shift = segment.tokens, segment.order, low - before
        before += high - low
        starts = [order[number + shift] + length for number in numbers[len(followers) : bisect_left(numbers, before)]]
        followers += [tokens[start : start + limit].tolist() for start in starts]
    return followers


def _chain(followers: list[list[int]], length: int, limit: int, size: int) -> tuple[int, ...]:
    """Down the trie of `followers` of a match of `length` tokens, along the child that most of them take.

    What is no token of a vocabulary of `size` ends a follower: the mark between documents is `size`, and a damaged
    file may hold anything.
    """
    chain: list[int] = []
    chance = 1.0
    for depth in range(limit):
        column = [follower[depth] for follower in followers if len(follower) > depth]
        token, count = _most_frequent(column, size)
        if not count:
            break
        chance *= _chance(count, len(followers), length + depth)
        if chance < _LEAST_CHANCE:
            break
        chain.append(token)
        if count < len(followers):
            followers = [follower for follower in followers if len(follower) > depth and follower[depth] == token]
    return tuple(chain)


def _most_frequent(column: Sequence[int], size: int) -> tuple[int, int]:
    """The token that stands most often in `column`, and how often; of several the first."""
    # Behind a long match all go on alike, most of the time.
    if column and column.count(column[0]) == len(column) and 0 <= column[0] < size:
        return column[0], len(column)
    counts = Counter(token for token in column if 0 <= token < size)
    return max(counts.items(), key=itemgetter(1), default=(0, 0))


def _chance(count: int, total: int, length: int) -> float:
    """How likely the target takes a token that followed `count` of `total` occurrences of a match of `length`.

    The share, with 30/length² occurrences added that went on otherwise: what followed two tokens once seldom follows
    them again. Fitted to greedy answers of the demo model with two datastores (tokens seen once were right 14 times
    of 100 after 2 or 3 tokens, 32 after 4, 35 after 5). The bare share drafted three to five times as many tokens for
    1.3 to 1.5 times as many accepted: slower wherever a row costs 5 % of a pass or more.
    """
    return count / (total + _DOUBT / (length * length))
