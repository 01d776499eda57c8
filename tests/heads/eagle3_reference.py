"""EAGLE-3's head in numpy, from a published checkpoint: what its authors' code computes (2503.01840, section 3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.heads.checkpoints import Published

Array = NDArray[np.float64]


def _norm(x: Array, weight: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * weight)


class Reference:
    """One head; `embedding` gives a token's row where the head has none of its own."""

    def __init__(
        self, published: Published, *, embedding: Callable[[int], Array] | None = None, slowed: Array | None = None
    ) -> None:
        self._published = published
        self._config: dict[str, Any] = published.config | published.config.get("transformer_layer_config", {})
        self._embedding = embedding or (lambda token: self._of("embed_tokens.weight")[token])
        self._slowed = slowed
        self._epsilon = float(self._config["rms_norm_eps"])

    def _of(self, name: str) -> Array:
        published = self._published
        known = name if name in published.tensors else name.replace("midlayer.", "layers.0.")
        return published.stored(known).astype(np.float64)

    def _layer(self, name: str) -> Array:
        return self._of(f"midlayer.{name}.weight")

    def fused(self, features: NDArray[np.float32]) -> Array:
        """g [n, width] of the target's states [n, 3 · target width]."""
        x = features.astype(np.float64)
        if self._config.get("norm_before_fc"):
            x = _norm(x, self._of("input_norm.weight"), self._epsilon)
        return np.asarray(x @ self._of("fc.weight").T)

    def states(self, tokens: Sequence[int], g: Array) -> Array:
        """The layer's output [n, width] for the pairs (token, g) at positions 0…"""
        embedded = np.stack([self._embedding(token) for token in tokens])
        normed = _norm(g, self._layer("hidden_norm"), self._epsilon)
        x = np.concatenate([_norm(embedded, self._layer("input_layernorm"), self._epsilon), normed], axis=1)
        attended = self._attention(x) @ self._layer("self_attn.o_proj").T
        held = attended + (normed if self._config.get("norm_before_residual") else g)
        y = _norm(held, self._layer("post_attention_layernorm"), self._epsilon)
        gate = y @ self._layer("mlp.gate_proj").T
        inner = gate / (1 + np.exp(-gate)) * (y @ self._layer("mlp.up_proj").T)
        return np.asarray(held + inner @ self._layer("mlp.down_proj").T)

    def logits(self, states: Array) -> Array:
        """Of the head's own rows [n, draft tokens]."""
        return np.asarray(self.final(states) @ self._of("lm_head.weight").T)

    def final(self, states: Array) -> Array:
        """What the output matrix reads [n, width]."""
        return _norm(states, self._of("norm.weight"), self._epsilon)

    def target_ids(self) -> NDArray[np.int64]:
        """The target's token for each of the head's own rows."""
        offsets = self._published.tensors["d2t"]
        return np.asarray(offsets + np.arange(len(offsets)))

    def _attention(self, x: Array) -> Array:
        config = self._config
        heads, kv_heads, size = (config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim"))

        def split(name: str, count: int) -> Array:
            product = x @ self._layer(f"self_attn.{name}").T
            return np.asarray(product.reshape(len(x), count, size).transpose(1, 0, 2))

        q, k, v = split("q_proj", heads), split("k_proj", kv_heads), split("v_proj", kv_heads)
        q, k = self._rotated(q), self._rotated(k)
        k, v = (np.repeat(part, heads // kv_heads, axis=0) for part in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(size)
        scores = np.where(np.tril(np.ones(scores.shape[1:], dtype=bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return np.asarray((weights @ v).transpose(1, 0, 2).reshape(len(x), heads * size))

    def _rotated(self, x: Array) -> Array:
        size = x.shape[-1]
        frequency = self._config["rope_theta"] ** (-np.arange(0, size, 2) / size)
        if self._slowed is not None:
            frequency = frequency / self._slowed
        angle = np.arange(x.shape[1])[:, None] * frequency
        angle = np.concatenate([angle, angle], axis=1)
        half = np.concatenate([-x[..., size // 2 :], x[..., : size // 2]], axis=-1)
        return np.asarray(x * np.cos(angle) + half * np.sin(angle))
