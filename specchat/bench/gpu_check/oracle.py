"""A draft model that costs what it costs and is right as often as it is told to be.

With the free oracle of `specchat.bench.synthetic` beside it, the cost of drafting is told from that of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.base import Drafter
from specchat.drafters.method import Method
from specchat.speculation.distribution import Distribution
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


@dataclass(frozen=True, slots=True)
class OracleSampler(Sampler):
    """Makes the distribution a draft would be drawn from, as always, and then gives the known token or a wrong one."""

    text: Sequence[int]
    """The prompt and all that the target will write after it."""
    alpha: float
    """Each token is right with this probability, whatever became of the others."""
    rng: np.random.Generator

    def distribution(self, logits: NDArray[np.floating[Any]], history: Sequence[int]) -> Distribution:
        """One-hot: the token that follows `history` in the text, or another one."""
        Sampler.distribution(self, logits, history)
        position = len(history)
        truth = self.text[position] if position < len(self.text) else 0
        if self.rng.random() < self.alpha:
            return Distribution.one_hot(truth)
        return Distribution.one_hot((truth + 1) % logits.size)


class PaidOracle:
    """Drafts with `inner`, a draft model whose passes and caches are real, and gives tokens of `text` in its name."""

    method = Method.DRAFT

    def __init__(self, inner: Drafter, text: Sequence[int], alpha: float, seed: int = 0) -> None:
        self._inner = inner
        self._text = text
        self._alpha = alpha
        self._rng = np.random.default_rng(seed)

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`; tokens come from the text from now on."""
        self._inner.begin(ids, OracleSampler(sampler.params, sampler.rule, self._text, self._alpha, self._rng))

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens."""
        return self._inner.propose(limit)

    def commit(self, step: Step) -> None:
        """Take the outcome of the last proposal."""
        self._inner.commit(step)

    def close(self) -> None:
        """Free what the draft model holds."""
        self._inner.close()
