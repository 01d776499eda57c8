"""Drafting a chain of sampled tokens, one forward pass a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.distribution import Distribution
from specchat.speculation.step import Draft


class Drawing(Protocol):
    """How a token is drawn; `specchat.speculation.sampler.Sampler` is one."""

    def distribution(self, logits: NDArray[np.floating[Any]], history: Sequence[int]) -> Distribution:
        """The distribution that `logits` [V] give after `history`."""

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position`."""


class Ranking(Drawing, Protocol):
    """A way of drawing that also tells which tokens are the likeliest."""

    @property
    def may_branch(self) -> bool:
        """Whether trees of likely tokens are worth drafting."""

    def ranked(self, logits: NDArray[np.floating[Any]], history: Sequence[int], n: int) -> list[tuple[int, float]]:
        """The `n` likeliest tokens that `logits` [V] give after `history`, with their probabilities."""


def sampled_chain(
    ids: list[int],
    pending: Sequence[int],
    limit: int,
    *,
    logits: Callable[[Sequence[int]], NDArray[np.floating[Any]]],
    sampler: Drawing,
    is_end_of_generation: Callable[[int], bool],
) -> Draft:
    """Up to `limit` tokens after `ids`, each with the distribution it was drawn from.

    `logits` [V] of a pass over the tokens it is given; the first pass is over `pending`. Drafting stops after a token
    that ends the answer. `ids` holds the drafted prefix meanwhile, for the penalties, and is as before on every way
    out.
    """
    start = len(ids)
    distributions: list[Distribution] = []
    try:
        while len(distributions) < limit:
            q = sampler.distribution(logits(pending), ids)
            token = sampler.draw(q, len(ids))
            distributions.append(q)
            ids.append(token)
            if is_end_of_generation(token):
                break
            pending = [token]
        return Draft(ids[start:], distributions)
    finally:
        del ids[start:]
