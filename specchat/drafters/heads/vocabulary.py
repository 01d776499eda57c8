"""Drawing from the tokens that a head can draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.distribution import Distribution
from specchat.speculation.sampler import Sampler

_Row = NDArray[np.floating[Any]]


class ReducedSampler:
    """A sampler over `ids` [n], ascending: any other token has the logit −inf and is not looked at.

    The distributions are those of the whole row: a fifth of a vocabulary costs a fifth of its softmax. Rows come whole
    [V], or, where `n_tokens` says what V is, as the logits of `ids` alone [n].
    """

    def __init__(self, sampler: Sampler, ids: NDArray[np.int64], *, n_tokens: int | None = None) -> None:
        self._sampler = sampler
        self._ids = ids
        self._compact = n_tokens is not None
        # Penalties and biases go by the target's own ids.
        self._by_id = sampler.params.penalizes or bool(sampler.params.logit_bias)
        self._row = np.full(n_tokens, -np.inf, dtype=np.float32) if n_tokens is not None and self._by_id else None

    @property
    def may_branch(self) -> bool:
        """Whether trees of likely tokens are worth drafting."""
        return self._sampler.may_branch

    def distribution(self, logits: _Row, history: Sequence[int]) -> Distribution:
        """The distribution that `logits` give after `history`."""
        if self._by_id:
            return self._sampler.distribution(self._whole(logits), history)
        q = self._sampler.distribution(self._reduced(logits), history)
        return Distribution(self._ids if q.ids is None else self._ids[q.ids], q.probs)

    def ranked(self, logits: _Row, history: Sequence[int], n: int) -> list[tuple[int, float]]:
        """The `n` likeliest tokens after `history`, with their probabilities."""
        if self._by_id:
            return self._sampler.ranked(self._whole(logits), history, n)
        return [(int(self._ids[i]), p) for i, p in self._sampler.ranked(self._reduced(logits), history, n)]

    def _reduced(self, logits: _Row) -> _Row:
        return logits if self._compact else logits[self._ids]

    def _whole(self, logits: _Row) -> _Row:
        if self._row is None:
            return logits
        self._row[self._ids] = logits
        return self._row

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position`."""
        return self._sampler.draw(distribution, position)
