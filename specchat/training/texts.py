"""What is learned from: texts of the target, its states while it wrote them, and what it would have said instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CHOICES = 32
"""Most probable next tokens that are kept of every row."""


@dataclass(frozen=True, slots=True)
class Text:
    """A prompt and an answer of the target's own: `tokens` [n], of which the first `n_prompt` are the prompt.

    Row i of the arrays belongs to the pass over token i. The answer's last token is in no pass, so they have n − 1.
    """

    tokens: NDArray[np.int32]
    n_prompt: int
    features: NDArray[np.float16]
    """The tapped layers' inputs side by side, [n − 1, taps · width]."""
    choices: NDArray[np.int32]
    """The tokens most probable after each answer row, best first: [n − n_prompt, CHOICES], from row n_prompt − 1 on."""
    chances: NDArray[np.float16]
    """Their probabilities at temperature 1, which sum to at most 1."""

    @property
    def n_answer(self) -> int:
        """Tokens of the answer."""
        return len(self.tokens) - self.n_prompt


def most_drafted(texts: Sequence[Text], n_tokens: int, most: int) -> NDArray[np.int64]:
    """The tokens that the target gives most probability to in `texts`, ascending: at most `most` of `n_tokens`.

    Where fewer ever had any, the lowest ids fill up: those of a vocabulary made by merging are its commonest pieces.
    """
    mass = np.zeros(n_tokens)
    for text in texts:
        np.add.at(mass, text.choices, text.chances.astype(np.float64))
    # A stable sort: equal masses, such as none, leave the lower id in front.
    return np.sort(np.argsort(-mass, kind="stable")[:most]).astype(np.int64)
