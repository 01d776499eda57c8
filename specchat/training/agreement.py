"""What a head would draft, computed in numpy: how often it says what the target says, and what that makes of α.

llama.cpp drives the same head in the chat; that it accepts as many tokens as predicted here is what shows that rows,
positions and roll-backs are right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specchat.llama.context import Context
from specchat.training.forward import HeadShape, Layer
from specchat.training.texts import Text
from specchat.training.weights import Tensors, written_weights

Floats = NDArray[np.float32]
Tokens = NDArray[np.int64]


class NumpyHead:
    """The head in the file `path`, which `head_file` wrote, with the target's token embeddings."""

    def __init__(self, path: Path, target: Tensors, shape: HeadShape) -> None:
        self._weights, self.ids = written_weights(path)
        self._target = target
        self._shape = shape

    def drafts(self, tokens: Sequence[int] | NDArray[np.int32], features: Floats, depth: int) -> Tokens:
        """The greedy drafts [pairs, depth] after each pair of `tokens` [n] and `features` [≥ n − 1, taps · width].

        Row P drafts from token P + 1 on, so its first entry is for token P + 2.
        """
        ids = np.asarray(tokens, dtype=np.int64)
        layer = Layer(np, self._shape, self._weights, len(ids) - 1)
        read, drafted = ids[1:], []
        states = (features[: len(ids) - 1].astype(np.float32) @ self._weights["fc"].T)[None]
        for _ in range(depth):
            states = layer.read(self._embedded(read)[None], states)
            read = self.ids[layer.logits(states, self._weights["output"])[0].argmax(axis=-1)]
            drafted.append(read)
        return np.stack(drafted, axis=1)

    def logits(self, tokens: Sequence[int], features: Floats) -> Floats:
        """Of the head's own tokens [pairs, draft tokens], for each pair of `tokens` [n] and `features`."""
        layer = Layer(np, self._shape, self._weights, len(tokens) - 1)
        states = (features[: len(tokens) - 1] @ self._weights["fc"].T)[None]
        states = layer.read(self._embedded(np.asarray(tokens[1:], dtype=np.int64))[None], states)
        return np.asarray(layer.logits(states, self._weights["output"])[0])

    def _embedded(self, ids: Tokens) -> Floats:
        used, places = np.unique(ids, return_inverse=True)
        return self._target.rows("token_embd.weight", used)[places]


def features_of(context: Context, layers: Sequence[int], tokens: Sequence[int]) -> Floats:
    """The inputs of `layers` side by side [len(tokens), layers · width]; `context` is emptied for it."""
    context.clear()
    pieces = []
    for start in range(0, len(tokens), context.n_batch):
        context.decode(tokens[start : start + context.n_batch], outputs=0)
        pieces.append(np.concatenate([context.layer_input(layer) for layer in layers], axis=1))
    return np.concatenate(pieces)


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a head's first token is the target's most probable one."""

    texts: int
    tokens: int
    rate: float
    covered: float
    """How often that token is among those the head can draft: no rate can be higher."""


def agreement(head: NumpyHead, texts: Sequence[Text]) -> Agreement:
    """Teacher-forced, on the answers of `texts`."""
    right = covered = n = 0
    for text in texts:
        first = max(0, text.n_prompt - 2)
        drafted = head.drafts(text.tokens, text.features.astype(np.float32), 1)[first:-1, 0]
        # The last pair is left away: what the target would have said after its last token is not known.
        said = text.choices[first - (text.n_prompt - 2) :, 0][: len(drafted)]
        right += int((drafted == said).sum())
        covered += int(np.isin(said, head.ids).sum())
        n += len(said)
    return Agreement(len(texts), n, right / n if n else 0.0, covered / n if n else 0.0)


def met(
    drafts: Tokens, tokens: Sequence[int], steps: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens tested and accepted at each place of a draft [depth] in `steps`, (place in the text, tokens drafted).

    `drafts` are those of `NumpyHead.drafts` along `tokens`, which greedy decoding wrote: a draft is tested up to its
    first token that is not the text's, and what lies past the text's end is cut and counts for nothing.
    """
    tested, accepted = (np.zeros(drafts.shape[1], np.int64) for _ in range(2))
    for at, drafted in steps:
        for i in range(min(drafted, len(tokens) - at)):
            tested[i] += 1
            if drafts[at - 2, i] != tokens[at + i]:
                break
            accepted[i] += 1
    return tested, accepted
