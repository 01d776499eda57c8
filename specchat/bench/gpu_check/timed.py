"""A context whose passes are timed, so that what a step takes besides them can be told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from specchat.llama.context import Context

Rows = NDArray[np.float32]


class TimedContext:
    """What loop and draft ask of a context; `seconds` is the time of its passes up to the logits, `passes` counts."""

    def __init__(self, context: Context) -> None:
        self._context = context
        # The context changes this very list, and never puts another in its place.
        self.tokens = context.tokens
        self.n_ctx = context.n_ctx
        self.seconds = 0.0
        self.passes = 0

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> Rows:
        """One timed pass."""
        started = time.perf_counter()
        rows = self._context.decode(tokens, outputs=outputs)
        self.seconds += time.perf_counter() - started
        self.passes += 1
        return rows

    def decode_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> Rows:
        """A pass over a tree."""
        return self._context.decode_tree(tokens, parents)

    def keep_path(self, path: Sequence[int]) -> bool:
        """Keep one path of the last tree."""
        return self._context.keep_path(path)

    def prefill(self, tokens: Sequence[int], *, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Read a prompt, untimed."""
        self._context.prefill(tokens, cancelled=cancelled)

    def truncate(self, length: int) -> bool:
        """Forget what lies past `length`."""
        return self._context.truncate(length)

    def clear(self) -> None:
        """Forget everything."""
        self._context.clear()

    def can_keep(self, length: int) -> bool:
        """Whether the first `length` tokens can be continued from."""
        return self._context.can_keep(length)

    def close(self) -> None:
        """Nothing: the context belongs to whoever opened it."""
