"""Where the last tokens of a conversation occur in past conversations: sorted n-gram hashes, built in one go."""

from __future__ import annotations

import bisect
import operator
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.past_text import PastText, Revision

SEPARATOR = -1
"""Stands between conversations, and where a deleted one stood; no token equals it."""

_MULTIPLIER = 0x9E3779B97F4A7C15
_WORD = (1 << 64) - 1
_POWERS = [pow(_MULTIPLIER, i, 1 << 64) for i in range(64)]
_ERASED = 64
"""So many entries more are looked at, where conversations erased since had the latest ones."""

_REBUILD_SHARE = 4
"""All is indexed anew when what changed since exceeds one part in so many."""


class Segment:
    """Past conversations one after another, with every n-gram of the orders sorted by hash, then by position.

    An entry is one 64-bit word: a polynomial hash of the n-gram in the high bits, the position of the token after
    it in the low ones. Equal n-grams are neighbours in the order of their age, so a look-up is one binary search.
    Hits are compared with the text, so a collision costs a comparison. Memory: 4 + 8 bytes a token and order.
    """

    def __init__(self, conversations: dict[str, NDArray[np.int32]], orders: Sequence[int]) -> None:
        """`orders`: each twice the one before."""
        gap = np.array([SEPARATOR], np.int32)
        parts = [part for ids in conversations.values() for part in (ids, gap)]
        self._raw = bytearray(np.concatenate(parts).tobytes()) if parts else bytearray()
        self._text = np.frombuffer(self._raw, np.int32)
        self.tokens = memoryview(self._raw).cast("i")
        ends = np.cumsum([len(ids) + 1 for ids in conversations.values()]).tolist()
        starts = [0, *ends[:-1]]
        self._spans = dict(zip(conversations, zip(starts, ends, strict=False), strict=True))
        self._low = (1 << max(1, len(self._text)).bit_length()) - 1
        self._keys = {order: memoryview(keys.data) for order, keys in _sorted_keys(self._text, orders, self._low)}

    def __len__(self) -> int:
        return len(self._text)

    def erase(self, conversation: str) -> None:
        """Overwrite a conversation: it is found no more."""
        start, end = self._spans.pop(conversation)
        self._text[start:end] = SEPARATOR

    def occurrences(self, gram: Sequence[int], most: int) -> list[int]:
        """Positions after the `most` latest occurrences of `gram`, latest first."""
        keys = self._keys[len(gram)]
        high = _hash(gram) & ~self._low & _WORD
        # The latest is the last of its run: backwards from the end of the run, no second search is needed.
        end = bisect.bisect_right(keys, high | self._low)
        wanted = array("i", gram).tobytes()
        found: list[int] = []
        for i in range(end - 1, max(0, end - most - _ERASED) - 1, -1):
            key = keys[i]
            if len(found) >= most or key < high:
                break
            position = key & self._low
            if self._raw.startswith(wanted, 4 * position - len(wanted)):
                found.append(position)
        return found


def _sorted_keys(text: NDArray[np.int32], orders: Sequence[int], low: int) -> list[tuple[int, NDArray[np.uint64]]]:
    """For each order, the sorted words of the n-grams of `text` [n]."""
    sorted_keys = []
    hashes = text[:0].astype(np.uint64)
    known = 0
    for order in orders:
        if not known:
            # Position p closes the n-gram text[p - n : p]; entry i belongs to p = i + n.
            hashes = np.zeros(max(0, len(text) - order + 1), np.uint64)
            for j in range(order):
                hashes *= np.uint64(_MULTIPLIER)
                hashes += text[j : j + len(hashes)].astype(np.uint64)
        elif order == 2 * known:
            hashes = hashes[:-known] * np.uint64(pow(_MULTIPLIER, known, 1 << 64)) + hashes[known:]
        else:
            raise ValueError(f"orders {list(orders)}: each is twice the one before.")
        known = order
        keys = (hashes & np.uint64(~low & _WORD)) | np.arange(order, order + len(hashes), dtype=np.uint64)
        keys.sort()
        sorted_keys.append((order, keys))
    return sorted_keys


def _hash(gram: Sequence[int]) -> int:
    value: int = sum(map(operator.mul, _POWERS, reversed(gram)))
    return value & _WORD


@dataclass
class PastIndex:
    """Keeps segments in step with the store: a large one built once, and a small one for what came since."""

    past: PastText
    orders: Sequence[int]
    _held: dict[str, Revision] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)
    _segments: list[Segment] = field(default_factory=list)

    def refresh(self) -> None:
        """Take in what this process or another has added, replaced or deleted since."""
        stored = self.past.revisions()
        if stored == self._held:
            return
        for conversation, revision in self._held.items():
            if stored.get(conversation) != revision and conversation not in self._changed:
                self._segments[-1].erase(conversation)
        self._changed = {
            name for name, revision in stored.items() if name in self._changed or self._held.get(name) != revision
        }
        self._held = stored
        self._index()

    def _index(self) -> None:
        # The order of age is the order of `_held`.
        read = self.past.read(self._changed)
        recent = {name: read[name] for name in self._held if name in read}
        size = sum(len(ids) for ids in recent.values())
        bulk = self._segments[-1:]
        if not bulk or _REBUILD_SHARE * size > len(bulk[0]):
            read = self.past.read(self._held)
            self._changed = set(self._held) - set(read)
            self._segments = [Segment({name: read[name] for name in self._held if name in read}, self.orders)]
        else:
            self._segments = [Segment(recent, self.orders), *bulk]

    def occurrences(self, gram: Sequence[int], most: int) -> list[tuple[memoryview[int], int]]:
        """A text and the position in it after an occurrence of `gram`, for the `most` latest of them."""
        found: list[tuple[memoryview[int], int]] = []
        for segment in self._segments:
            found += [(segment.tokens, at) for at in segment.occurrences(gram, most - len(found))]
        return found
