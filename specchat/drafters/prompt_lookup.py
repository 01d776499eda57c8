"""Drafting what followed the last few tokens when they stood in the text before (prompt lookup decoding).

After Saxena, "Prompt Lookup Decoding" (2023): longest n-gram first. Unlike there, the most recent occurrence counts:
in a chat, and in edits of code, the latest version of a passage is the one that is being repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from specchat.drafters.method import Method
from specchat.drafters.suffix_index import NgramIndex
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


class PromptLookupDrafter:
    """Copies on from the latest occurrence of the longest n-gram, `smallest` ≤ n ≤ `largest`, that ends the text.

    Matches of one or two tokens say little and cost a verification each, hence n ≥ 3 by default. Drafts are
    deterministic (one-hot). Time per token and per proposal does not grow with the text.
    """

    method = Method.PROMPT_LOOKUP

    def __init__(self, smallest: int = 3, largest: int = 8) -> None:
        """Raises ValueError unless 1 ≤ `smallest` ≤ `largest`."""
        if not 1 <= smallest <= largest:
            raise ValueError(
                f"n-grams of {smallest} to {largest} tokens: the smallest is 1, and no larger than the largest."
            )
        self._orders = range(largest, smallest - 1, -1)
        self._index = NgramIndex(self._orders)

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with exactly `ids`; the sampler is not needed, since nothing is drawn."""
        self._index.follow(ids)

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens that followed the match."""
        if limit <= 0:
            return Draft()
        for order in self._orders:
            position = self._index.latest(order)
            if position is not None:
                return Draft(self._copy(position, limit), match=order)
        return Draft()

    def _copy(self, position: int, limit: int) -> list[int]:
        tokens = self._index.tokens[position : position + limit].tolist()
        # A match that reaches the end of the text overlaps it: the text repeats itself, so the copy goes round.
        period = len(tokens)
        return [tokens[i % period] for i in range(limit)]

    def commit(self, step: Step) -> None:
        """Append what the step emitted."""
        self._index.extend(step.tokens)

    def close(self) -> None:
        """Drop the index."""
        self._index = NgramIndex(self._orders)
