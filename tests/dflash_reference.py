"""A DFlash head in numpy, from its file: what 2602.06036 computes for the block behind a text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.dflash_models import EPSILON, HEADS, KV_HEADS, ROPE_BASE, SIZE

Array = NDArray[np.float64]


def _norm(x: Array, weight: Array) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weight)


def _rotated(x: Array, positions: NDArray[np.int64]) -> Array:
    """`x` [heads, n, size] turned by its positions; an element's partner is half a head away."""
    angle = positions[:, None] * ROPE_BASE ** (-np.arange(0, SIZE, 2) / SIZE)
    first, second = x[..., : SIZE // 2], x[..., SIZE // 2 :]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


class Reference:
    """One head; what it borrows from its target is read from the file `target`."""

    def __init__(self, path: Path, target: Path, *, window: int = 0, causal: bool = False) -> None:
        self._tensors = {
            tensor.name: tensor.data.astype(np.float64)
            for source in (target, path)
            for tensor in gguf.GGUFReader(source).tensors
            if source == path or tensor.name in ("token_embd.weight", "output.weight")
        }
        self._layers = sum(name.endswith("attn_q.weight") for name in self._tensors)
        self._window = window
        self._causal = causal

    def _of(self, name: str) -> Array:
        return np.asarray(self._tensors[f"{name}.weight"])

    def logits(self, features: NDArray[np.float32], block: Sequence[int]) -> Array:
        """Of each row of `block`, which stands behind a text with these features [n, layers · width]."""
        fused = _norm(features.astype(np.float64) @ self._of("fc").T, self._of("enc.output_norm"))
        x = self._of("token_embd")[list(block)]
        for i in range(self._layers):
            x = self._layer(i, x, fused)
        return np.asarray(_norm(x, self._of("output_norm")) @ self._of("output").T)

    def _layer(self, i: int, x: Array, fused: Array) -> Array:
        def of(name: str) -> Array:
            return self._of(f"blk.{i}.{name}")

        normed = _norm(x, of("attn_norm"))
        # Keys and values of the text come from the target's features, those of the block from the block.
        seen = np.concatenate([fused, normed])
        where = np.arange(len(seen))
        q = _rotated(_norm(self._heads(normed @ of("attn_q").T, HEADS), of("attn_q_norm")), where[len(fused) :])
        k = _rotated(_norm(self._heads(seen @ of("attn_k").T, KV_HEADS), of("attn_k_norm")), where)
        v = self._heads(seen @ of("attn_v").T, KV_HEADS)
        x = x + self._attended(q, k, v, windowed=bool(self._window) and i == 0) @ of("attn_output").T
        y = _norm(x, of("ffn_norm"))
        gate = y @ of("ffn_gate").T
        return np.asarray(x + (gate / (1 + np.exp(-gate)) * (y @ of("ffn_up").T)) @ of("ffn_down").T)

    def _heads(self, rows: Array, count: int) -> Array:
        return np.asarray(rows.reshape(len(rows), count, SIZE).transpose(1, 0, 2))

    def _attended(self, q: Array, k: Array, v: Array, *, windowed: bool) -> Array:
        k, v = (np.repeat(part, HEADS // KV_HEADS, axis=0) for part in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(SIZE)
        behind = np.arange(k.shape[1])[None, :] - (np.arange(q.shape[1]) + k.shape[1] - q.shape[1])[:, None]
        hidden = (behind > 0) & self._causal | (-behind >= self._window) & windowed
        scores = np.where(hidden, -np.inf, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.asarray((weights @ v).transpose(1, 0, 2).reshape(q.shape[1], HEADS * SIZE))
