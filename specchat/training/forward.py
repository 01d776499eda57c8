"""The forward pass of an EAGLE-3 head (Li et al. 2503.01840, section 3), for numpy and for jax alike.

It follows llama.cpp's `eagle3` graph: one layer whose queries, keys and values read [normed token embedding, normed
state], and whose residual stream is the state. A pair (token x[P + 1], state before it) stands at position P; what the
layer makes of it is both the source of the logits for x[P + 2] and the state that a draft goes on from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = Any
"""Of numpy or of jax; the leading dimensions [texts, positions] are common to all."""


@dataclass(frozen=True, slots=True)
class HeadShape:
    """Sizes of a head, those of the target's own layers."""

    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    epsilon: float
    theta: float
    """Base of the rotary frequencies."""
    taps: tuple[int, int, int]
    """The target's layers whose inputs it reads."""
    n_tokens: int
    """Of the target's vocabulary."""
    n_ctx: int

    def rotation(self, positions: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Cosines and sines [positions, head_size / 2] (Su et al. 2104.09864, section 3.2)."""
        frequency = self.theta ** (-np.arange(0, self.head_size, 2) / self.head_size)
        angle = np.arange(positions)[:, None] * frequency
        return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def normed(xp: Any, x: Array, weight: Array, epsilon: float) -> Array:
    """RMS norm of the last dimension (Zhang and Sennrich 1910.07467, equation 4)."""
    return x / xp.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight


class Layer:
    """The layer with `weights` by their names in the GGUF, without `blk.0.` and `.weight`; `xp` is numpy or jax.numpy.

    `read` is called for pairs that the target's states feed, then once for every further token of a draft: each call
    reads all texts and positions at once. Step j of a draft that starts at P stands at P + j, and sees the pairs 0…P of
    the text and the steps before it: what the authors call training-time test (2503.01840, section 3.2).
    """

    def __init__(self, xp: Any, shape: HeadShape, weights: Mapping[str, Array], positions: int) -> None:
        self._xp = xp
        self._shape = shape
        self._weights = weights
        self._positions = positions
        # A few more: steps of a draft stand past the text's own positions.
        self._cos, self._sin = shape.rotation(positions + 64)
        self._held: list[tuple[Array, Array]] = []

    def read(self, embedded: Array, states: Array) -> Array:
        """The layer's output [texts, positions, width] for the tokens `embedded` and the states before them."""
        xp, w, shape = self._xp, self._weights, self._shape
        x = xp.concatenate(
            [
                normed(xp, embedded, w["attn_norm"], shape.epsilon),
                normed(xp, states, w["attn_norm_2"], shape.epsilon),
            ],
            axis=-1,
        )
        held = states + self._attention(x) @ w["attn_output"].T
        y = normed(xp, held, w["ffn_norm"], shape.epsilon)
        gate = y @ w["ffn_gate"].T
        return held + (gate / (1 + xp.exp(-gate)) * (y @ w["ffn_up"].T)) @ w["ffn_down"].T

    def logits(self, states: Array, output: Array) -> Array:
        """Logits [texts, positions, rows of `output`] of the layer's output."""
        return normed(self._xp, states, self._weights["output_norm"], self._shape.epsilon) @ output.T

    def _attention(self, x: Array) -> Array:
        xp, shape, n = self._xp, self._shape, self._positions
        step, groups = len(self._held), shape.heads // shape.kv_heads
        q = self._rotated(self._split(x, "attn_q", shape.heads), step)
        self._held.append(
            (self._rotated(self._split(x, "attn_k", shape.kv_heads), step), self._split(x, "attn_v", shape.kv_heads))
        )
        # [texts, positions, heads of keys, queries a head of keys, head size]
        q = q.reshape(*q.shape[:2], shape.kv_heads, groups, shape.head_size) / np.float32(shape.head_size**0.5)
        keys, values = self._held[0]
        scores = xp.einsum("bpkgd,bmkd->bkgpm", q, keys)
        scores = xp.where(np.tril(np.ones((n, n), dtype=bool)), scores, np.float32(-1e30))
        own = [xp.einsum("bpkgd,bpkd->bkgp", q, k)[..., None] for k, _ in self._held[1:]]
        scores = xp.concatenate([scores, *own], axis=-1)
        chances = xp.exp(scores - scores.max(-1, keepdims=True))
        chances = chances / chances.sum(-1, keepdims=True)
        mixed = xp.einsum("bkgpm,bmkd->bpkgd", chances[..., :n], values)
        for i, (_, v) in enumerate(self._held[1:]):
            mixed = mixed + xp.einsum("bkgp,bpkd->bpkgd", chances[..., n + i], v)
        return mixed.reshape(*x.shape[:2], shape.heads * shape.head_size)

    def _split(self, x: Array, name: str, heads: int) -> Array:
        return (x @ self._weights[name].T).reshape(*x.shape[:2], heads, self._shape.head_size)

    def _rotated(self, x: Array, step: int) -> Array:
        """Dimensions 2i and 2i + 1 turned together, as at `step` positions further than the text's."""
        place = slice(step, step + self._positions)
        cos, sin = self._cos[place, None, :], self._sin[place, None, :]
        even, odd = x[..., ::2], x[..., 1::2]
        turned = self._xp.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
        return turned.reshape(x.shape)
