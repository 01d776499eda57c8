"""Writes trained heads without the training: EAGLE-3 and NextN GGUF files with random weights, in a second or less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from specchat.llama.gguf import read_header
from tests.tiny_model import vocabulary

_LARGEST_F32 = 1 << 18
"""Elements of a matrix from which on it is written as Q8_0: a third of the size, and what published heads are."""


class GgufWriter:
    """A GGUF file in the making, and the chance its weights are drawn from."""

    def __init__(self, path: Path, architecture: str, seed: int) -> None:
        self.gguf = gguf.GGUFWriter(path, architecture)
        self.gguf.add_name(path.stem)
        self._chance = np.random.default_rng(seed)

    def matrix(self, name: str, *shape: int, spread: float | None = None) -> None:
        """A random matrix [rows out, columns in] whose products keep the size of a normed row."""
        scale = shape[-1] ** -0.5 if spread is None else spread
        self.add(name, (self._chance.standard_normal(shape, dtype=np.float32) * scale).astype(np.float32))

    def ones(self, name: str, *shape: int) -> None:
        """The weights of a norm."""
        self.add(name, np.ones(shape, dtype=np.float32))

    def add(self, name: str, values: NDArray[np.float32]) -> None:
        """A tensor as it is; a large matrix as Q8_0."""
        if values.ndim == 2 and values.size >= _LARGEST_F32 and values.shape[1] % 32 == 0:
            kind = gguf.GGMLQuantizationType.Q8_0
            self.gguf.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:
            self.gguf.add_tensor(name, values)

    def close(self) -> None:
        """Write the file."""
        self.gguf.write_header_to_file()
        self.gguf.write_kv_data_to_file()
        self.gguf.write_tensors_to_file()
        self.gguf.close()


def write_eagle_head(
    path: Path,
    target: Path,
    *,
    layers: Sequence[int] | None = None,
    draft_vocab: int | None = None,
    own_output: bool = True,
    own_embedding: bool = False,
    target_hidden_size: int | None = None,
    vocab_size: int | None = None,
    mask_token: int | None = None,
    seed: int = 0,
) -> Path:
    """An `eagle3` head for the model at `target`, of its width and vocabulary.

    `layers`: the three whose inputs it reads. `draft_vocab`: tokens it can draft, spread over the vocabulary; None:
    all. Without an output matrix or embeddings of its own it uses the target's. `target_hidden_size` and `vocab_size`
    are for files that lie. `mask_token`: drafts in parallel, with a random state beside the mask.
    """
    header = read_header(target)
    width, n_layer = (
        int(header.of_architecture("embedding_length") or 0),
        int(header.of_architecture("block_count") or 0),
    )
    tokens = header.array_lengths["tokenizer.ggml.tokens"]
    heads = 2
    writer = GgufWriter(path, "eagle3", seed)
    g = writer.gguf
    g.add_context_length(int(header.of_architecture("context_length") or 512))
    g.add_embedding_length(width)
    g.add_block_count(1)
    g.add_feed_forward_length(2 * width)
    g.add_head_count(heads)
    g.add_head_count_kv(heads)
    g.add_layer_norm_rms_eps(1e-5)
    g.add_rope_freq_base(10_000.0)
    g.add_rope_dimension_count(width // heads)
    g.add_vocab_size(tokens if vocab_size is None else vocab_size)
    g.add_array("eagle3.target_layers", list(layers or (1, n_layer // 2, n_layer - 1)))
    g.add_uint32("eagle3.target_hidden_size", width if target_hidden_size is None else target_hidden_size)
    g.add_tokenizer_model("none")
    if mask_token is not None:
        g.add_uint32("eagle3.mask_token_id", mask_token)
        g.add_array("eagle3.mask_state", np.random.default_rng(seed).normal(0, 1, width).tolist())
    writer.matrix("fc.weight", width, 3 * width)
    _add_eagle_layer(writer, width)
    writer.ones("output_norm.weight", width)
    if own_output:
        writer.matrix("output.weight", draft_vocab or tokens, width, spread=3 * width**-0.5)
        if draft_vocab is not None:
            # As llama.cpp's converter writes it: the target's ids themselves, not offsets.
            g.add_tensor("d2t", (np.arange(draft_vocab, dtype=np.int64) * tokens) // draft_vocab)
    if own_embedding:
        writer.matrix("token_embd.weight", tokens, width, spread=1.0)
    writer.close()
    return path


def _add_eagle_layer(writer: GgufWriter, width: int) -> None:
    for name in ("attn_norm", "attn_norm_2", "ffn_norm"):
        writer.ones(f"blk.0.{name}.weight", width)
    for name in ("attn_q", "attn_k", "attn_v"):
        writer.matrix(f"blk.0.{name}.weight", width, 2 * width)
    writer.matrix("blk.0.attn_output.weight", width, width)
    writer.matrix("blk.0.ffn_gate.weight", 2 * width, width)
    writer.matrix("blk.0.ffn_up.weight", 2 * width, width)
    writer.matrix("blk.0.ffn_down.weight", width, 2 * width)


_WIDTH, _HEADS, _HEAD_SIZE, _FFN = 64, 2, 32, 96
_STATE, _GROUPS, _VALUE_HEADS, _KERNEL = 32, 2, 2, 4


def write_hybrid_model(path: Path, *, layers: int = 4, nextn: int = 1, seed: int = 0) -> Path:
    """A `qwen35` model of width 64: three of four layers keep a running state, and `nextn` layers draft."""
    names, types = vocabulary()
    writer = GgufWriter(path, "qwen35", seed)
    _describe_hybrid(writer, layers, nextn)
    add_tokenizer(writer, names, types)
    writer.matrix("token_embd.weight", len(names), _WIDTH, spread=1.0)
    writer.ones("output_norm.weight", _WIDTH)
    writer.matrix("output.weight", len(names), _WIDTH, spread=0.5)
    for i in range(layers):
        if (i + 1) % 4:
            _add_linear_attention(writer, i)
        else:
            _add_attention(writer, i)
        _add_feed_forward(writer, i)
    for i in range(layers, layers + nextn):
        _add_nextn_layer(writer, i)
    writer.close()
    return path


def write_nextn_sidecar(path: Path, *, layers: int = 4, seed: int = 1) -> Path:
    """The NextN layer of a `qwen35` model with `layers` layers in a file of its own: no layer of the trunk in it."""
    names, types = vocabulary()
    writer = GgufWriter(path, "qwen35", seed)
    _describe_hybrid(writer, layers, 1)
    add_tokenizer(writer, names, types)
    writer.matrix("token_embd.weight", len(names), _WIDTH, spread=1.0)
    writer.ones("output_norm.weight", _WIDTH)
    writer.matrix("output.weight", len(names), _WIDTH, spread=0.5)
    _add_nextn_layer(writer, layers)
    writer.close()
    return path


def _describe_hybrid(writer: GgufWriter, layers: int, nextn: int) -> None:
    g = writer.gguf
    g.add_context_length(512)
    g.add_embedding_length(_WIDTH)
    # The count includes the layers that draft.
    g.add_block_count(layers + nextn)
    g.add_feed_forward_length(_FFN)
    g.add_head_count(_HEADS)
    g.add_head_count_kv(_HEADS)
    g.add_key_length(_HEAD_SIZE)
    g.add_value_length(_HEAD_SIZE)
    g.add_layer_norm_rms_eps(1e-5)
    g.add_rope_freq_base(10_000.0)
    g.add_rope_dimension_count(_HEAD_SIZE)
    g.add_array("qwen35.rope.dimension_sections", [_HEAD_SIZE // 4, _HEAD_SIZE // 8, _HEAD_SIZE // 8, 0])
    g.add_ssm_conv_kernel(_KERNEL)
    g.add_ssm_inner_size(_VALUE_HEADS * _STATE)
    g.add_ssm_state_size(_STATE)
    g.add_ssm_time_step_rank(_VALUE_HEADS)
    g.add_ssm_group_count(_GROUPS)
    g.add_uint32("qwen35.full_attention_interval", 4)
    if nextn:
        g.add_uint32("qwen35.nextn_predict_layers", nextn)


def add_tokenizer(writer: GgufWriter, names: list[str], types: list[int]) -> None:
    """A vocabulary of the kind of `tests.tiny_model`."""
    g = writer.gguf
    g.add_tokenizer_model("llama")
    g.add_token_list(names)
    g.add_token_scores([-float(i) for i in range(len(names))])
    g.add_token_types(types)
    g.add_bos_token_id(1)
    g.add_eos_token_id(2)
    g.add_add_bos_token(True)


def _add_linear_attention(writer: GgufWriter, i: int) -> None:
    key, value = _GROUPS * _STATE, _VALUE_HEADS * _STATE
    writer.ones(f"blk.{i}.attn_norm.weight", _WIDTH)
    writer.matrix(f"blk.{i}.attn_qkv.weight", 2 * key + value, _WIDTH)
    writer.matrix(f"blk.{i}.attn_gate.weight", value, _WIDTH)
    writer.matrix(f"blk.{i}.ssm_conv1d.weight", 2 * key + value, _KERNEL)
    writer.matrix(f"blk.{i}.ssm_dt.bias", _VALUE_HEADS, spread=0.1)
    writer.add(f"blk.{i}.ssm_a", -np.linspace(0.1, 0.4, _VALUE_HEADS, dtype=np.float32))
    writer.matrix(f"blk.{i}.ssm_beta.weight", _VALUE_HEADS, _WIDTH)
    writer.matrix(f"blk.{i}.ssm_alpha.weight", _VALUE_HEADS, _WIDTH)
    writer.ones(f"blk.{i}.ssm_norm.weight", _STATE)
    writer.matrix(f"blk.{i}.ssm_out.weight", _WIDTH, value)


def _add_attention(writer: GgufWriter, i: int) -> None:
    inner = _HEADS * _HEAD_SIZE
    writer.ones(f"blk.{i}.attn_norm.weight", _WIDTH)
    # Query and gate in one matrix.
    writer.matrix(f"blk.{i}.attn_q.weight", 2 * inner, _WIDTH)
    writer.matrix(f"blk.{i}.attn_k.weight", inner, _WIDTH)
    writer.matrix(f"blk.{i}.attn_v.weight", inner, _WIDTH)
    writer.matrix(f"blk.{i}.attn_output.weight", _WIDTH, inner)
    writer.ones(f"blk.{i}.attn_q_norm.weight", _HEAD_SIZE)
    writer.ones(f"blk.{i}.attn_k_norm.weight", _HEAD_SIZE)


def _add_feed_forward(writer: GgufWriter, i: int) -> None:
    writer.ones(f"blk.{i}.post_attention_norm.weight", _WIDTH)
    writer.matrix(f"blk.{i}.ffn_gate.weight", _FFN, _WIDTH)
    writer.matrix(f"blk.{i}.ffn_up.weight", _FFN, _WIDTH)
    writer.matrix(f"blk.{i}.ffn_down.weight", _WIDTH, _FFN)


def _add_nextn_layer(writer: GgufWriter, i: int) -> None:
    _add_attention(writer, i)
    _add_feed_forward(writer, i)
    writer.matrix(f"blk.{i}.nextn.eh_proj.weight", _WIDTH, 2 * _WIDTH)
    writer.ones(f"blk.{i}.nextn.enorm.weight", _WIDTH)
    writer.ones(f"blk.{i}.nextn.hnorm.weight", _WIDTH)
