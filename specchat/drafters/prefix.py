"""The beginning that two texts share, and what of a cache can be kept of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class DraftContext(Protocol):
    """The draft model's KV cache and forward pass; `specchat.llama.context.Context` is one."""

    tokens: list[int]
    n_ctx: int

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> NDArray[np.float32]:
        """Append `tokens`; logits [outputs, V] of the last rows."""

    def prefill(self, tokens: Sequence[int], *, cancelled: Callable[[], bool] = ...) -> None:
        """Append `tokens` in chunks, without logits."""

    def truncate(self, length: int) -> bool:
        """Forget what lies past `length`; False where the memory can't roll back."""

    def clear(self) -> None:
        """Forget everything."""

    def can_keep(self, length: int) -> bool:
        """Whether the first `length` tokens can be continued from."""

    def close(self) -> None:
        """Free the cache."""


def common_prefix(held: list[int], ids: Sequence[int], limit: int) -> int:
    """How many tokens, at most `limit`, `held` and `ids` begin with alike."""
    end = min(len(held), len(ids), limit)
    # Nearly always one extends the other: comparing slices is C, the search for a difference is not.
    if held[:end] == list(ids[:end]):
        return end
    return next(i for i in range(end) if held[i] != ids[i])


def keep_common_prefix(context: DraftContext, ids: Sequence[int], limit: int) -> int:
    """Cut the cache to its longest prefix that `ids` share, at most `limit` long; the length that stays.

    Where the cache can't be cut there (a sliding window lost its cells, a recurrent state) it is emptied.
    """
    length = common_prefix(context.tokens, ids, limit)
    if length < len(context.tokens) and not (context.can_keep(length) and context.truncate(length)):
        context.clear()
    return len(context.tokens)
