"""Texts laid out for training: a few at a time, all of one length, as the passes of a head read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.training.texts import CHOICES, Text
from specchat.training.weights import Tensors

Floats = NDArray[np.float32]

_ROUNDED_TO: Final = 16
_LONGEST: Final = 90
"""Percentile of the lengths: what is longer is cut, since all others would be padded to it."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """Texts side by side; position P of every array is the pair (token P + 1, feature P)."""

    features: NDArray[np.float16]
    """[texts, positions, taps · width]."""
    embedded: Floats
    """The tokens P + 1 [texts, positions + steps − 1, width]."""
    rows: NDArray[np.int32]
    """Of the output matrix, for the target's choices after token P + 1 [texts, positions + steps − 1, CHOICES]."""
    chances: Floats
    """Their probabilities; 0 for tokens that the head has no row for, and where there is nothing to learn."""


class Lessons:
    """Draws lessons from `texts` in random order, for drafts of up to `steps` tokens."""

    def __init__(
        self,
        texts: Sequence[Text],
        target: Tensors,
        ids: NDArray[np.int64],
        *,
        rows_a_lesson: int,
        steps: int,
        rng: np.random.Generator,
    ) -> None:
        lengths = [len(text.features) for text in texts]
        longest = int(np.percentile(lengths, _LONGEST, method="higher"))
        self.positions = -(-longest // _ROUNDED_TO) * _ROUNDED_TO
        self.texts_a_lesson = max(1, round(rows_a_lesson / self.positions))
        self._texts = texts
        self._steps = steps
        self._rng = rng
        used = np.unique(np.concatenate([text.tokens for text in texts])).astype(np.int64)
        self._place = np.zeros(int(used[-1]) + 1, dtype=np.int64)
        self._place[used] = np.arange(len(used))
        self._embeddings = target.rows("token_embd.weight", used)
        self._row = np.full(int(max(used[-1], ids[-1], *(text.choices.max() for text in texts))) + 1, -1, np.int32)
        self._row[ids] = np.arange(len(ids))
        self._order: list[int] = []

    def feature_scale(self) -> Floats:
        """The root mean square of each feature [taps · width]."""
        total, count = np.zeros(self._texts[0].features.shape[1]), 0
        for text in self._texts:
            total += np.square(text.features.astype(np.float32)).sum(axis=0)
            count += len(text.features)
        return np.sqrt(total / count).astype(np.float32) + np.float32(1e-6)

    def draw(self) -> Lesson:
        """The next texts."""
        n, p, ahead = self.texts_a_lesson, self.positions, self.positions + self._steps - 1
        features = np.zeros((n, p, self._texts[0].features.shape[1]), np.float16)
        embedded = np.zeros((n, ahead, self._embeddings.shape[1]), np.float32)
        rows, chances = np.zeros((n, ahead, CHOICES), np.int32), np.zeros((n, ahead, CHOICES), np.float32)
        for i in range(n):
            text = self._texts[self._next()]
            held = text.features[:p]
            features[i, : len(held)] = held
            # The pair at P reads token P + 1, whose own pass chose what comes next: row P + 1 of the text.
            tokens = text.tokens[1:][:ahead]
            embedded[i, : len(tokens)] = self._embeddings[self._place[tokens]]
            first = text.n_prompt - 2
            end = max(first, min(first + len(text.choices), ahead))
            # The choice after the prompt belongs to a pair of the prompt; a prompt of one token has none.
            skipped = max(0, -first)
            chosen = self._row[text.choices[skipped : end - first]]
            known = chosen >= 0
            rows[i, max(0, first) : end] = np.where(known, chosen, 0)
            chances[i, max(0, first) : end] = np.where(known, text.chances[skipped : end - first], 0)
        return Lesson(features, embedded, rows, chances)

    def _next(self) -> int:
        if not self._order:
            self._order = self._rng.permutation(len(self._texts)).tolist()
        return self._order.pop()
