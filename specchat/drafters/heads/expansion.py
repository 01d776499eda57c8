"""The passes of a head over the nodes of a draft tree, whose branches its cache holds one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.best_first import Path
from specchat.drafters.prefix import common_prefix

States = NDArray[np.float32]


class Reader(Protocol):
    """What is asked of a head; `specchat.drafters.heads.drafter.Head` has it."""

    def draft(self, tokens: Sequence[int], states: States) -> tuple[NDArray[np.float32], States]:
        """Read pairs; the logits [V] after the last, and the head's own state there [1, width]."""


class Expansion:
    """Logits after any path of drafted tokens, each node's parent having been asked for before.

    A head's cache is one sequence. To go from one branch to another it forgets what they don't share (`cut`, told how
    many drafted tokens stay) and reads the rest again: a few rows of one layer, for which no tree attention is needed.
    """

    def __init__(self, head: Reader, tokens: Sequence[int], states: States, cut: Callable[[int], None]) -> None:
        """`tokens` and `states` [n, width] are the pairs that the head must read before it can draft at all."""
        self._head = head
        self._pending = tokens
        self._pending_states = states
        self._cut = cut
        self._held: Path = ()
        self._state_after: dict[Path, States] = {}

    def logits(self, path: Path) -> NDArray[np.float32]:
        """Logits [V] of the token after `path`, valid until the next call. Raises what the head raises."""
        if not path:
            row, state = self._head.draft(self._pending, self._pending_states)
        else:
            row, state = self._beyond(path)
        # The state lies in the engine's memory, and later passes go over it.
        self._state_after[path] = state.copy()
        return row

    def _beyond(self, path: Path) -> tuple[NDArray[np.float32], States]:
        shared = common_prefix(list(self._held), path, limit=len(path) - 1)
        if shared < len(self._held):
            self._cut(shared)
        states = [self._state_after[path[:length]] for length in range(shared, len(path))]
        self._held = path
        return self._head.draft(path[shared:], np.concatenate(states))
