"""Suffix decoding: drafting what most often followed, here and in past conversations (Oliaro et al. 2411.04975).

Section 4 of the paper: among the continuations of a matched suffix the most frequent token is taken, again and again;
the estimated probability of the path is the product of the shares; the sum of these products is the expected number
of accepted tokens, the score by which match lengths and sources compete. In place of suffix trees, whose nodes cost
hundreds of bytes a token, the shares are counted over the latest occurrences of n-grams of a few lengths.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from specchat.drafters.method import Method
from specchat.drafters.past_index import SEPARATOR, PastIndex
from specchat.drafters.past_text import PastText
from specchat.drafters.suffix_index import NgramIndex
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

ORDERS = (3, 6, 12, 24)
"""Lengths of the n-grams that are looked up; how far the best of them really match is then read off the text."""

_LONGEST_MATCH = 2 * ORDERS[-1]

Text: TypeAlias = "array[int] | memoryview[int]"

Occurrence: TypeAlias = tuple[Text, int]
"""A text, and the position in it of the token after a match."""

LookUp: TypeAlias = Callable[[int, int], list[Occurrence]]
"""Takes an order and a count; the latest occurrences, as many at most, of the last so many tokens."""


class Path(NamedTuple):
    """A drafted chain and the number of its tokens expected to be accepted."""

    ids: list[int]
    score: float
    match: int = 0
    """Tokens of the match it continues."""


class SuffixDrafter:
    """Drafts from the longest and most telling matches of the text's end, in it and in `past`.

    A draft is at most `factor` times as long as the match and ends where the estimated probability of the path falls
    below `min_probability`. Shares are counted over the `most` latest occurrences. Drafts are deterministic (one-hot).
    Reading `past` begins with the first answer; later answers take in only what changed.
    """

    method = Method.SUFFIX

    def __init__(
        self, past: PastText | None = None, *, factor: float = 1.0, min_probability: float = 0.1, most: int = 16
    ) -> None:
        self._past = None if past is None else PastIndex(past, ORDERS)
        self._index = NgramIndex(ORDERS)
        self._factor = factor
        self._min_probability = min_probability
        self._most = most

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with exactly `ids` and with what is stored of past conversations; the sampler is not needed."""
        self._index.follow(ids)
        if self._past is not None:
            self._past.refresh()

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens; this conversation is preferred where both sources expect as much."""
        if limit <= 0:
            return Draft()
        best = self._best_path(self._here, limit)
        if self._past is not None and best.score < limit:
            best = max(best, self._best_path(self._before, limit), key=lambda path: path.score)
        return Draft(best.ids, match=best.match)

    def _here(self, order: int, most: int) -> list[Occurrence]:
        tokens = self._index.tokens
        return [(tokens, at) for at in self._index.occurrences(order, most)]

    def _before(self, order: int, most: int) -> list[Occurrence]:
        if self._past is None or len(self._index.tokens) < order:
            return []
        return [*self._past.occurrences(self._index.tokens[-order:], most)]

    def _best_path(self, look_up: LookUp, limit: int) -> Path:
        """The path of the highest score over the match lengths of one source; the longer match on ties."""
        best = Path([], 0.0)
        for length, occurrences in self._matches(look_up, limit):
            reach = min(limit, int(self._factor * length))
            continuations = [_continuation(text, at, reach) for text, at in occurrences]
            path = likeliest_path(continuations, reach, self._min_probability)
            if path.score > best.score:
                best = path._replace(match=length)
            # No shorter match can expect more than its own reach.
            if best.score >= reach:
                break
        return best

    def _matches(self, look_up: LookUp, limit: int) -> Iterator[tuple[int, list[Occurrence]]]:
        """Match lengths, the longest first, each with the occurrences that match at least so far.

        Between two orders the true length of the best is read off the text, where a longer match allows a longer draft.
        """
        # Where n tokens are not found, no more are.
        found = list(itertools.takewhile(lambda order: look_up(order, 1), ORDERS))
        for order in reversed(found):
            occurrences = look_up(order, self._most)
            if order == found[-1] and int(self._factor * order) < limit:
                tail = self._index.tokens[-_LONGEST_MATCH:]
                lengths = [_match_length(text, at, tail, order) for text, at in occurrences]
                longest = max(lengths)
                if longest > order:
                    yield longest, [o for o, length in zip(occurrences, lengths, strict=True) if length == longest]
            yield order, occurrences

    def commit(self, step: Step) -> None:
        """Append what the step emitted."""
        self._index.extend(step.tokens)

    def close(self) -> None:
        """Drop both indexes."""
        self._index = NgramIndex(ORDERS)
        self._past = None


def likeliest_path(continuations: Sequence[Sequence[int]], reach: int, min_probability: float) -> Path:
    """Follow the most frequent token through `continuations` (latest first; the latest wins a tie), `reach` at most."""
    ids: list[int] = []
    probability, score = 1.0, 0.0
    alive = [c for c in continuations if c]
    while alive and len(ids) < reach:
        step = len(ids)
        if alive.count(alive[0]) == len(alive):
            rest = alive[0][step:reach]
            return Path([*ids, *rest], score + probability * len(rest))
        heads = [c[step] for c in alive]
        token = max(dict.fromkeys(heads), key=heads.count)
        probability *= heads.count(token) / len(heads)
        if probability < min_probability:
            break
        ids.append(token)
        score += probability
        alive = [c for c in alive if c[step] == token and len(c) > step + 1]
    return Path(ids, score)


def _continuation(text: Text, at: int, length: int) -> list[int]:
    following = text[at : at + length].tolist()
    return following[: following.index(SEPARATOR)] if SEPARATOR in following else following


def _match_length(text: Text, at: int, tail: Sequence[int], known: int) -> int:
    """How many tokens before `at` equal the end of `tail`; the first `known` do."""
    longest = min(at, len(tail))
    while known < longest and text[at - 1 - known] == tail[-1 - known]:
        known += 1
    return known
