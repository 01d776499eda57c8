"""Where the last tokens of a conversation occurred before in it, kept up to date token by token."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

_NONE = 0
"""No position: an n-gram is known by the position of the token after it, which is at least n."""

_FULLEST = 0.6
"""Linear probing stays short below this share of slots in use."""


class NgramIndex:
    """Earlier occurrences of the last n tokens, for each n in `orders`, most recent first.

    An n-gram is entered when the token after it arrives and is known by that token's position, so the end of the
    text never finds itself. Work per token, appended or cut: one hash look-up an order. Memory: 4 bytes a token,
    and 11 to 18 bytes a token and order.
    """

    def __init__(self, orders: Sequence[int]) -> None:
        self.tokens = array("i")
        self._tables = {order: _Table(order) for order in orders}

    def follow(self, ids: Sequence[int]) -> None:
        """Hold exactly `ids`; only what differs from the tokens held is undone and entered."""
        wanted = array("i", ids)
        keep = _common_prefix(self.tokens, wanted)
        if len(self.tokens) - keep > keep:
            # More would be undone than stays: starting over is less work, and gives the memory back.
            keep = 0
            self.tokens = array("i")
            self._tables = {order: _Table(order) for order in self._tables}
        self.cut(keep)
        self.extend(wanted[keep:])

    def extend(self, ids: Sequence[int]) -> None:
        """Append `ids`."""
        self.tokens.extend(ids)
        for table in self._tables.values():
            table.enter(self.tokens)

    def cut(self, length: int) -> None:
        """Forget the tokens past `length`."""
        for table in self._tables.values():
            table.undo(self.tokens, length)
        del self.tokens[length:]

    def latest(self, order: int) -> int | None:
        """The position after the most recent earlier occurrence of the last `order` tokens."""
        return self._tables[order].find(self.tokens) or None

    def occurrences(self, order: int, most: int) -> list[int]:
        """Positions after the `most` most recent earlier occurrences of the last `order` tokens, latest first."""
        table = self._tables[order]
        position = table.find(self.tokens)
        found: list[int] = []
        while position and len(found) < most:
            found.append(position)
            position = table.earlier[position]
        return found


class _Table:
    """The n-grams of one length: a hash table to the latest occurrence of each, and links to the earlier ones.

    The slots hold positions only; the key of an entry is read from the text. Entries leave in the reverse order
    of their coming, so an emptied slot never lies on another key's probe path.
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self.earlier = array("i")
        self._slots = array("i", bytes(4 * 16))
        self._distinct = 0

    def enter(self, tokens: array[int]) -> None:
        """Enter the n-grams that came with the tokens past those already seen."""
        start, end = len(self.earlier), len(tokens)
        if self._distinct + end - start > _FULLEST * len(self._slots):
            # Entering all again in their order keeps the rule on which undoing rests.
            start = self._start_over(self._distinct + end - start)
        order, earlier, slots, distinct = self.order, self.earlier, self._slots, self._distinct
        mask = len(slots) - 1
        earlier.extend([_NONE] * (min(order, end) - start))
        for position in range(max(start, order), end):
            gram = tokens[position - order : position]
            slot = hash(gram.tobytes()) & mask
            held = slots[slot]
            while held and tokens[held - order : held] != gram:
                slot = (slot + 1) & mask
                held = slots[slot]
            earlier.append(held)
            slots[slot] = position
            distinct += not held
        self._distinct = distinct

    def _start_over(self, entries: int) -> int:
        size = len(self._slots)
        while entries > _FULLEST * size:
            size *= 2
        self._slots = array("i", bytes(4 * size))
        self.earlier = array("i")
        self._distinct = 0
        return 0

    def undo(self, tokens: array[int], length: int) -> None:
        """Take back what the tokens past `length` brought; `tokens` still holds them."""
        order, earlier, slots = self.order, self.earlier, self._slots
        mask = len(slots) - 1
        while len(earlier) > length:
            before = earlier.pop()
            position = len(earlier)
            if position < order:
                continue
            slot = hash(tokens[position - order : position].tobytes()) & mask
            while slots[slot] != position:
                slot = (slot + 1) & mask
            slots[slot] = before
            self._distinct -= not before

    def find(self, tokens: array[int]) -> int:
        """The latest entry equal to the last n of `tokens`, or 0."""
        order, slots = self.order, self._slots
        if len(tokens) < order:
            return _NONE
        gram = tokens[-order:]
        mask = len(slots) - 1
        slot = hash(gram.tobytes()) & mask
        held = slots[slot]
        while held and tokens[held - order : held] != gram:
            slot = (slot + 1) & mask
            held = slots[slot]
        return held


def _common_prefix(held: array[int], wanted: array[int]) -> int:
    end = min(len(held), len(wanted))
    if held[:end] == wanted[:end]:
        return end
    differs = np.frombuffer(held, np.int32, end) != np.frombuffer(wanted, np.int32, end)
    return int(differs.argmax())
