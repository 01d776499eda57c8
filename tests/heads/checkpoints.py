"""Published checkpoints in miniature: random tensors in the safetensors layout, and a config.json beside them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]

_NAMES = {"float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "bool": "BOOL", "uint8": "F8_E4M3"}


def rounded(values: NDArray[np.float32], kind: str) -> NDArray[np.float32]:
    """`values` as they come back from a file that stores them as `kind`: F32, F16 or BF16."""
    if kind == "BF16":
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype({"F32": np.float32, "F16": np.float16}[kind]).astype(np.float32)


def write_safetensors(path: Path, tensors: Mapping[str, NDArray[Any]], kind: str = "F32") -> Path:
    """Write `tensors`, those of float32 as `kind`."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in tensors.items():
        stored, type_name = tensor, _NAMES[str(tensor.dtype)]
        if tensor.dtype == np.float32:
            type_name = kind
            stored = (
                (tensor.view(np.uint32) >> 16).astype(np.uint16)
                if kind == "BF16"
                else tensor.astype({"F32": np.float32, "F16": np.float16}[kind])
            )
        raw = stored.tobytes()
        header[name] = {
            "dtype": type_name,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


@dataclass
class Published:
    """A checkpoint to be changed before it is written."""

    tensors: Tensors
    config: dict[str, Any] = field(default_factory=dict)
    kind: str = "BF16"
    file: str = "model.safetensors"

    def write(self, folder: Path) -> Path:
        """Write it to `folder`, which is then what a user would name."""
        folder.mkdir(parents=True, exist_ok=True)
        write_safetensors(folder / self.file, self.tensors, self.kind)
        if self.config:
            (folder / "config.json").write_text(json.dumps(self.config))
        return folder

    def stored(self, name: str) -> NDArray[np.float32]:
        """A tensor as a reader of the file sees it."""
        return rounded(self.tensors[name], self.kind)


def _normal(chance: np.random.Generator, rows: int, width: int) -> NDArray[np.float32]:
    return np.asarray(chance.normal(0, 1, (rows, width)) / np.sqrt(width), dtype=np.float32)


@dataclass(frozen=True)
class HeadSizes:
    """Of an EAGLE-3 head and its target."""

    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_size: int = 8
    ffn: int = 64
    target_width: int = 32
    target_tokens: int = 286
    draft_tokens: int = 100


def eagle3(
    sizes: HeadSizes | None = None, *, seed: int = 0, own_embedding: bool = True, own_output: bool = True
) -> Published:
    """An EAGLE-3 head in SpecForge's layout."""
    s, chance = sizes or HeadSizes(), np.random.default_rng(seed)

    def matrix(rows: int, width: int) -> NDArray[np.float32]:
        return _normal(chance, rows, width)

    def norm(size: int) -> NDArray[np.float32]:
        return np.asarray(chance.normal(1, 0.2, size), dtype=np.float32)

    tensors: Tensors = {
        "fc.weight": matrix(s.width, 3 * s.target_width),
        "midlayer.input_layernorm.weight": norm(s.width),
        "midlayer.hidden_norm.weight": norm(s.width),
        "midlayer.post_attention_layernorm.weight": norm(s.width),
        "midlayer.self_attn.q_proj.weight": matrix(s.heads * s.head_size, 2 * s.width) * 4,
        "midlayer.self_attn.k_proj.weight": matrix(s.kv_heads * s.head_size, 2 * s.width) * 4,
        "midlayer.self_attn.v_proj.weight": matrix(s.kv_heads * s.head_size, 2 * s.width),
        "midlayer.self_attn.o_proj.weight": matrix(s.width, s.heads * s.head_size),
        "midlayer.mlp.gate_proj.weight": matrix(s.ffn, s.width),
        "midlayer.mlp.up_proj.weight": matrix(s.ffn, s.width),
        "midlayer.mlp.down_proj.weight": matrix(s.width, s.ffn),
        "norm.weight": norm(s.width),
    }
    if own_embedding:
        tensors["embed_tokens.weight"] = matrix(s.target_tokens, s.width)
    if own_output:
        ids = np.sort(chance.choice(s.target_tokens, s.draft_tokens, replace=False)).astype(np.int64)
        tensors["lm_head.weight"] = matrix(s.draft_tokens, s.width) * 4
        tensors["d2t"] = ids - np.arange(s.draft_tokens)
        tensors["t2d"] = np.isin(np.arange(s.target_tokens), ids)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": s.draft_tokens,
        "head_dim": s.head_size,
        "hidden_act": "silu",
        "hidden_size": s.width,
        "intermediate_size": s.ffn,
        "max_position_embeddings": 2048,
        "num_attention_heads": s.heads,
        "num_hidden_layers": 1,
        "num_key_value_heads": s.kv_heads,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500.0,
        "vocab_size": s.target_tokens,
    }
    return Published(tensors, config)


def as_speculators(published: Published) -> Published:
    """The same head in the layout of the `speculators` library."""
    own = ("draft_vocab_size", "norm_before_residual", "norm_before_fc")
    layer = {key: value for key, value in published.config.items() if key not in own}
    config = {key: value for key, value in published.config.items() if key in own}
    config |= {"transformer_layer_config": layer, "speculators_model_type": "eagle3", "target_hidden_size": None}
    tensors = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in published.tensors.items()}
    return Published(tensors, config, published.kind)


def medusa(
    *, width: int = 32, tokens: int = 286, heads: int = 3, blocks: int = 1, seed: int = 0, own_output: bool = True
) -> Published:
    """Medusa heads as their authors' code saves them."""
    chance = np.random.default_rng(seed)

    tensors: Tensors = {}
    for head in range(heads):
        for block in range(blocks):
            tensors[f"{head}.{block}.linear.weight"] = _normal(chance, width, width)
            tensors[f"{head}.{block}.linear.bias"] = chance.normal(0, 1, width).astype(np.float32)
        if own_output:
            tensors[f"{head}.{blocks}.weight"] = _normal(chance, tokens, width) * 4
    config = {"medusa_num_heads": heads, "medusa_num_layers": blocks, "base_model_name_or_path": "somebody/target"}
    return Published(tensors, config, file="medusa_lm_head.safetensors")


def medusa_logits(published: Published, head: int, state: NDArray[np.float32]) -> NDArray[np.float64]:
    """What head `head` says of `state` [width], over all of its rows: in numpy, from the checkpoint."""
    held, block = state.astype(np.float64), 0
    while f"{head}.{block}.linear.weight" in published.tensors:
        inner = published.stored(f"{head}.{block}.linear.weight") @ held + published.stored(
            f"{head}.{block}.linear.bias"
        )
        held = held + inner / (1 + np.exp(-inner))
        block += 1
    return np.asarray(published.stored(f"{head}.{block}.weight") @ held)
