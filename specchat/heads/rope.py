"""Rotary positions of a checkpoint, as llama.cpp's keys and tensors.

Published models rotate dimension i together with i + n/2 of a head of n dimensions; llama.cpp's graph for EAGLE-3
rotates 2i together with 2i + 1 (Su et al. 2104.09864, section 3.4.2), so the rows of q and k are put in that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specchat.heads.head_file import Value
from specchat.heads.settings import Settings

_THETA: Final = 10_000.0
_YARN_KEYS: Final = {
    "extrapolation_factor": "yarn_ext_factor", "attention_factor": "yarn_attn_factor", "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
}  # fmt: skip


def interleaved(heads: int, head_size: int) -> NDArray[np.int64]:
    """Which row of a published q or k matrix stands in each row of llama.cpp's: [heads · head_size]."""
    within = np.arange(head_size, dtype=np.int64).reshape(2, head_size // 2).T.ravel()
    return (np.arange(heads, dtype=np.int64)[:, None] * head_size + within).ravel()


def rope_keys(settings: Settings, head_size: int) -> tuple[dict[str, Value], NDArray[np.float32] | None]:
    """Keys, without the architecture in front, and the divisors of the frequencies [head_size / 2], if there are any.

    Raises CheckpointUnusable for a kind of scaling that llama.cpp's graph for heads does not compute.
    """
    scaling = settings.table("rope_parameters", "rope_scaling")
    theta = settings.real("rope_theta", _THETA, table=scaling if settings.values.get("rope_theta") is None else None)
    keys: dict[str, Value] = {"rope.freq_base": theta, "rope.dimension_count": head_size}
    kind = scaling.get("rope_type", scaling.get("type")) or "default"
    if kind == "default" and "mrope_section" not in scaling:
        return keys, None
    if kind == "llama3":
        return keys, _llama3(settings, scaling, theta, head_size)
    if kind not in ("linear", "yarn"):
        raise settings.unknown("rope_scaling", dict(scaling))
    keys |= {"rope.scaling.type": kind, "rope.scaling.factor": settings.real("factor", table=scaling)}
    if kind == "yarn":
        original = settings.real("original_max_position_embeddings", table=scaling)
        keys["rope.scaling.original_context_length"] = int(original)
        for key, stored in _YARN_KEYS.items():
            if scaling.get(key) is not None:
                keys[f"rope.scaling.{stored}"] = settings.real(key, table=scaling)
    return keys, None


def _llama3(settings: Settings, scaling: Mapping[str, Any], theta: float, head_size: int) -> NDArray[np.float32]:
    """The divisors by which Llama 3.1 slows the frequencies that turn seldom within the original context.

    Long waves are slowed by `factor`, short ones not at all, those between in steps (transformers, "llama3" in
    `modeling_rope_utils`).
    """
    factor = settings.real("factor", 8.0, table=scaling)
    low, high = (settings.real(f"{end}_freq_factor", of, table=scaling) for end, of in (("low", 1.0), ("high", 4.0)))
    original = settings.real("original_max_position_embeddings", 8192, table=scaling)
    if low == high:
        raise settings.unknown("rope_scaling", dict(scaling))
    waves = 2 * math.pi * theta ** (np.arange(0, head_size, 2) / head_size)
    unslowed = np.clip((original / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - unslowed) / factor + unslowed)).astype(np.float32)
