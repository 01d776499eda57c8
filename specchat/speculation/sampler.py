"""How tokens are chosen during one answer, for the target and the draft alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.acceptance import AcceptanceRule, Coupled
from specchat.speculation.distribution import Distribution, warp
from specchat.speculation.params import SamplingParams
from specchat.speculation.ranking import likeliest


@dataclass(frozen=True, slots=True)
class Sampler:
    """The sampler chain and the acceptance rule of one answer.

    Target and draft share one, so that p and q can't drift apart.
    """

    params: SamplingParams
    rule: AcceptanceRule

    def distribution(self, logits: NDArray[np.floating[Any]], history: Sequence[int]) -> Distribution:
        """The distribution that `logits` [V] give after `history` (the drafted prefix included)."""
        return warp(logits, history, self.params)

    @property
    def may_branch(self) -> bool:
        """Whether trees of likely tokens are worth drafting.

        Not where draft and target draw with the same noise: a chain of drawn tokens is then kept more often.
        """
        return self.params.greedy or not isinstance(self.rule, Coupled)

    def ranked(self, logits: NDArray[np.floating[Any]], history: Sequence[int], n: int) -> list[tuple[int, float]]:
        """The `n` likeliest tokens that `logits` [V] give after `history`, with their probabilities."""
        return likeliest(logits, history, self.params, n)

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position`, as a proposal or for a plain step."""
        return self.rule.draw(distribution, position)
