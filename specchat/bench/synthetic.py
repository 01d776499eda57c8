"""An oracle: a drafter that knows the text and errs as often as it is told to.

With it acceptance is given and drafting costs nothing, so that a gap between theory and measurement has one place
left to lie in: the loop, or what a pass costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specchat.drafters.method import Method
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


class OracleDrafter:
    """Proposes the tokens that will come, each replaced by a wrong one with probability 1 − `alpha`.

    `text` is the whole transcript (prompt and answer) of the same deterministic run: greedy, or coupled with a seed.
    There one-hot proposals are accepted where they are right and nowhere else, so that acceptance is independent and
    equal at every position: the premise of 2211.17192, section 3. Past the end of `text` nothing is proposed. Raises
    ValueError unless 0 ≤ α ≤ 1.
    """

    method = Method.PROMPT_LOOKUP
    """The kind it stands for: one-hot, and without a forward pass."""

    def __init__(self, alpha: float, vocabulary: int, seed: int = 0) -> None:
        if not 0 <= alpha <= 1:
            raise ValueError(f"An acceptance rate lies between 0 and 1, unlike {alpha}.")
        self.alpha = alpha
        self.text: Sequence[int] = ()
        self._vocabulary = vocabulary
        self._rng = np.random.default_rng(seed)
        self._held = 0

    @property
    def name(self) -> str:
        """What statistics call it."""
        return f"oracle ({self.alpha:g})"

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`, the beginning of the text it knows."""
        self._held = len(ids)

    def propose(self, limit: int) -> Draft:
        """The next `limit` tokens of the text, some of them wrong."""
        coming = self.text[self._held : self._held + limit]
        right = self._rng.random(len(coming)) < self.alpha
        return Draft(
            [token if kept else (token + 1) % self._vocabulary for token, kept in zip(coming, right, strict=True)]
        )

    def commit(self, step: Step) -> None:
        """Follow the text."""
        self._held += len(step.tokens)

    def close(self) -> None:
        """Nothing to free."""
