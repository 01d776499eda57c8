"""Drafting with a smaller model of the same vocabulary (Leviathan et al. 2211.17192, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.base import Method
from specchat.drafters.chain import sampled_chain
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


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


_LONGEST_CATCH_UP = 32
"""More tokens than this are read as a prefill: passes with logits are for short blocks."""


class ModelDrafter:
    """Samples a chain of tokens from a draft model, from the very distributions it reports.

    The draft's cache holds a prefix of the ids held; what is missing (after full acceptance the last draft token
    and the bonus) goes through in the next proposal's first pass.
    """

    def __init__(
        self,
        context: DraftContext,
        shared_vocabulary: int,
        is_end_of_generation: Callable[[int], bool],
        cancelled: Callable[[], bool] = lambda: False,
        method: Method = Method.DRAFT,
    ) -> None:
        self.method = method
        self._context = context
        self._shared_vocabulary = shared_vocabulary
        self._is_end = is_end_of_generation
        self._cancelled = cancelled
        self._ids: list[int] = []
        self._sampler: Sampler | None = None

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`, reading into the cache all but the last of them.

        Raises PrefillCancelled when stopped; what was read stays and the next call goes on from there.
        """
        self._sampler = sampler
        self._ids = list(ids)
        keep_common_prefix(self._context, self._ids, limit=len(self._ids) - 1)
        missing = self._ids[len(self._context.tokens) : -1]
        if missing and self._follows(self._ids):
            self._context.prefill(missing, cancelled=self._cancelled)

    def missing(self, ids: Sequence[int]) -> int:
        """Tokens that `begin(ids)` would read into the cache."""
        held, end = self._context.tokens, min(len(self._context.tokens), len(ids) - 1)
        same = held[:end] == list(ids[:end])
        return len(ids) - 1 - (end if same else next(i for i in range(end) if held[i] != ids[i]))

    def _follows(self, ids: Sequence[int]) -> bool:
        """Whether the draft can read `ids`: two vocabularies may differ in padding at their end."""
        return max(ids) < self._shared_vocabulary

    def propose(self, limit: int) -> Draft:
        """Up to `limit` sampled tokens; drafting stops after a token that ends the answer."""
        if self._sampler is None:
            raise RuntimeError("propose() came before begin().")
        pending = self._ids[len(self._context.tokens) :]
        limit = min(limit, self._context.n_ctx - len(self._ids))
        if limit <= 0 or not self._follows(pending):
            return Draft()
        if len(pending) > _LONGEST_CATCH_UP:
            self._context.prefill(pending[:-1], cancelled=self._cancelled)
            pending = pending[-1:]
        return sampled_chain(
            self._ids,
            pending,
            limit,
            logits=lambda tokens: self._context.decode(tokens, outputs=1)[0, : self._shared_vocabulary],
            sampler=self._sampler,
            is_end_of_generation=self._is_end,
        )

    def commit(self, step: Step) -> None:
        """Keep the accepted prefix in the cache, forget the rest of the draft."""
        agreed = len(self._ids) + step.accepted
        self._ids.extend(step.tokens)
        # The last token stays to be read: its row is where the next proposal comes from.
        if not self._context.truncate(min(agreed, len(self._ids) - 1)):
            self._context.clear()

    def close(self) -> None:
        """Free the draft's cache."""
        self._context.close()


def keep_common_prefix(context: DraftContext, ids: Sequence[int], limit: int) -> int:
    """Cut the cache to its longest prefix that `ids` share, at most `limit` long; the length that stays.

    Where the cache can't be cut there (a sliding window lost its cells, a recurrent state) it is emptied.
    """
    held = context.tokens
    end = min(len(held), limit)
    # Nearly always one extends the other: comparing slices is C, the search for a difference is not.
    same = held[:end] == ids[:end]
    length = end if same else next(i for i in range(end) if held[i] != ids[i])
    if length < len(held) and not (context.can_keep(length) and context.truncate(length)):
        context.clear()
    return len(context.tokens)
