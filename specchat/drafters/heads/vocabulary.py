"""Drawing from the tokens that a head can draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.distribution import Distribution
from specchat.speculation.sampler import Sampler


class ReducedSampler:
    """A sampler over `ids` [n], ascending: any other token has the logit −inf and is not looked at.

    The distributions are those of the whole row: a fifth of a vocabulary costs a fifth of its softmax.
    """

    def __init__(self, sampler: Sampler, ids: NDArray[np.int64]) -> None:
        self._sampler = sampler
        self._ids = ids
        # Penalties and biases go by the target's own ids.
        self._whole = sampler.params.penalizes or bool(sampler.params.logit_bias)

    def distribution(self, logits: NDArray[np.floating[Any]], history: Sequence[int]) -> Distribution:
        """The distribution that `logits` [V] give after `history`."""
        if self._whole:
            return self._sampler.distribution(logits, history)
        q = self._sampler.distribution(logits[self._ids], history)
        return Distribution(self._ids if q.ids is None else self._ids[q.ids], q.probs)

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position`."""
        return self._sampler.draw(distribution, position)
