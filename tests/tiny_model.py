"""Writes small GGUF files with random weights: real models for llama.cpp, made in milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, FFN = 32, 2, 64
_CONTROL, _BYTE, _NORMAL = 3, 6, 1
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]


def vocabulary(letters: Sequence[str] = LETTERS) -> tuple[list[str], list[int]]:
    """Tokens and their types: controls, every byte, a few letters."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", *letters]
    types = [_CONTROL] * 3 + [_BYTE] * 256 + [_NORMAL] * (len(letters) + 1)
    return tokens, types


def write_model(
    path: Path,
    *,
    layers: int = 2,
    seed: int = 0,
    spread: float = 0.6,
    letters: Sequence[str] = LETTERS,
    architecture: str = "llama",
    template: str | None = None,
    add_bos: bool = True,
    extra: dict[str, int | bool] | None = None,
    tokens: bool = True,
) -> Path:
    """A `llama` model of width 32; `spread` is the scale of its weights."""
    writer = gguf.GGUFWriter(path, architecture)
    names, types = vocabulary(letters)
    writer.add_name(path.stem)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    if tokens:
        _add_vocabulary(writer, names, types, add_bos)
    if template is not None:
        writer.add_chat_template(template)
    for key, value in (extra or {}).items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
        add(f"{architecture}.{key}", value)
    _add_weights(writer, layers, len(names), seed, spread)
    _write(writer)
    return path


def _add_vocabulary(writer: gguf.GGUFWriter, names: list[str], types: list[int], add_bos: bool = True) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([-float(i) for i in range(len(names))])
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(add_bos)


def _write(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_weights(writer: gguf.GGUFWriter, layers: int, n_vocab: int, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)

    def add(name: str, *shape: int) -> None:
        scale = spread if len(shape) > 1 else 0.0
        base = 0.0 if len(shape) > 1 else 1.0
        writer.add_tensor(f"{name}.weight", (base + rng.normal(0, 1, shape) * scale).astype(np.float32))

    add("token_embd", n_vocab, WIDTH)
    add("output_norm", WIDTH)
    add("output", n_vocab, WIDTH)
    for i in range(layers):
        add(f"blk.{i}.attn_norm", WIDTH)
        add(f"blk.{i}.ffn_norm", WIDTH)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{i}.{name}", WIDTH, WIDTH)
        add(f"blk.{i}.ffn_gate", FFN, WIDTH)
        add(f"blk.{i}.ffn_up", FFN, WIDTH)
        add(f"blk.{i}.ffn_down", WIDTH, FFN)


def write_recurrent_model(path: Path, *, layers: int = 2, seed: int = 0) -> Path:
    """A `mamba` model of width 32: its memory is a running state, which can't forget single tokens."""
    inner, state, rank, kernel = 2 * WIDTH, 16, 2, 4
    names, types = vocabulary()
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_name(path.stem)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(kernel)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(state)
    writer.add_ssm_time_step_rank(rank)
    _add_vocabulary(writer, names, types)
    rng = np.random.default_rng(seed)

    def add(name: str, *shape: int, base: float = 0.0, scale: float = 0.3) -> None:
        writer.add_tensor(name, (base + rng.normal(0, 1, shape) * scale).astype(np.float32))

    add("token_embd.weight", len(names), WIDTH)
    add("output_norm.weight", WIDTH, base=1.0, scale=0.0)
    add("output.weight", len(names), WIDTH)
    for i in range(layers):
        add(f"blk.{i}.attn_norm.weight", WIDTH, base=1.0, scale=0.0)
        add(f"blk.{i}.ssm_in.weight", 2 * inner, WIDTH)
        add(f"blk.{i}.ssm_conv1d.weight", inner, kernel)
        add(f"blk.{i}.ssm_conv1d.bias", inner)
        add(f"blk.{i}.ssm_x.weight", rank + 2 * state, inner)
        add(f"blk.{i}.ssm_dt.weight", inner, rank)
        add(f"blk.{i}.ssm_dt.bias", inner)
        add(f"blk.{i}.ssm_a", inner, state, base=-1.0, scale=0.1)
        add(f"blk.{i}.ssm_d", inner, base=1.0, scale=0.0)
        add(f"blk.{i}.ssm_out.weight", WIDTH, inner)
    _write(writer)
    return path
