"""Drafting with a smaller model of the same vocabulary (Leviathan et al. 2211.17192, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specchat.drafters.chain import sampled_chain
from specchat.drafters.method import Method
from specchat.drafters.prefix import DraftContext, common_prefix, keep_common_prefix
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

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
        return len(ids) - 1 - common_prefix(self._context.tokens, ids, limit=len(ids) - 1)

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
