"""What the target's passes left behind for a head to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.prefix import common_prefix

States = NDArray[np.float32]

_UNKNOWN = -1


class TargetRows:
    """The target's latest features, one row of `width` a token, and the tokens of its latest passes.

    `copy` writes the rows of the latest pass into an array [tokens, width]. Rejected tokens are held too, until a
    pass at their position replaces them and all after them. `capacity`: rows held at once, at least those of the
    longest pass and one.
    """

    def __init__(self, width: int, capacity: int, copy: Callable[[States], None]) -> None:
        self._rows = np.empty((capacity, width), dtype=np.float32)
        self._copy = copy
        self.tokens: list[int] = []
        self.first = 0
        """The position of the oldest row held."""

    def full(self, position: int, n: int) -> bool:
        """Whether rows must be let go before those of a pass over `n` tokens at `position` can be taken."""
        return position > self.first and position + n - self.first > len(self._rows)

    def take(self, position: int, tokens: Sequence[int]) -> None:
        """Hold the rows of the latest pass, over `tokens` at `position`, and forget all after them.

        When there is no room, the oldest rows go, but the one before the pass stays.
        """
        n = len(tokens)
        if position > len(self.tokens):
            # What was read before this drafter heard of anything is unknown here.
            self.tokens += [_UNKNOWN] * (position - len(self.tokens))
            self.first = position
        self.first = min(self.first, position)
        if position + n - self.first > len(self._rows):
            last = position - 1
            if last >= self.first:
                self._rows[0] = self._rows[last - self.first]
                self.first = last
            else:
                self.first = position
        self.tokens[position:] = tokens
        start = position - self.first
        self._copy(self._rows[start : start + n])

    def held(self, ids: Sequence[int]) -> range:
        """The positions of `ids` whose rows are held: those that the target read after the very same tokens."""
        return range(self.first, common_prefix(self.tokens, ids, limit=len(ids)))

    def of(self, positions: range) -> States:
        """The rows of `positions`, which must be held: a view, valid until the next pass."""
        return self._rows[positions.start - self.first : positions.stop - self.first]
