"""Writes a tiny `gemma4` model and the assistant that drafts for it from its cache, both with random weights."""

from __future__ import annotations

from pathlib import Path

from tests.head_models import GgufWriter, add_tokenizer
from tests.tiny_model import vocabulary

_WIDTH, _OWN_WIDTH, _FFN = 64, 32, 96
_HEADS, _KV_HEADS, _SIZE, _WINDOW = 2, 1, 32, 512
# The last of each kind: an assistant reads the keys and values of these two.
_SLIDING = (True, True, True, False)


def write_gemma4(path: Path, *, window: int = _WINDOW, seed: int = 0) -> Path:
    """A model of width 64 with a sliding window in three of its four layers."""
    names, types = vocabulary()
    writer = GgufWriter(path, "gemma4", seed)
    _describe(writer, "gemma4", _WIDTH, _SLIDING, window)
    writer.gguf.add_uint32("gemma4.embedding_length_per_layer_input", 0)
    add_tokenizer(writer, names, types)
    writer.matrix("token_embd.weight", len(names), _WIDTH, spread=0.4)
    # A matrix of its own: with random weights a tied one would give back the token it was given.
    writer.matrix("output.weight", len(names), _WIDTH, spread=0.5)
    writer.ones("output_norm.weight", _WIDTH)
    writer.ones("rope_freqs.weight", _SIZE // 2)
    for i in range(len(_SLIDING)):
        _add_layer(writer, i, _WIDTH)
        writer.matrix(f"blk.{i}.attn_k.weight", _KV_HEADS * _SIZE, _WIDTH)
        writer.matrix(f"blk.{i}.attn_v.weight", _KV_HEADS * _SIZE, _WIDTH)
        writer.ones(f"blk.{i}.attn_k_norm.weight", _SIZE)
    writer.close()
    return path


def write_assistant(path: Path, *, target_width: int = _WIDTH, window: int = _WINDOW, seed: int = 1) -> Path:
    """The assistant of `write_gemma4`'s model: narrower, without keys and values of its own."""
    names, types = vocabulary()
    writer = GgufWriter(path, "gemma4-assistant", seed)
    _describe(writer, "gemma4-assistant", _OWN_WIDTH, _SLIDING[-2:], window)
    writer.gguf.add_uint32("gemma4-assistant.embedding_length_out", target_width)
    writer.gguf.add_uint32("gemma4-assistant.nextn_predict_layers", 2)
    add_tokenizer(writer, names, types)
    writer.matrix("token_embd.weight", len(names), _OWN_WIDTH, spread=0.4)
    writer.ones("output_norm.weight", _OWN_WIDTH)
    writer.ones("rope_freqs.weight", _SIZE // 2)
    writer.matrix("nextn.pre_projection.weight", _OWN_WIDTH, 2 * target_width)
    writer.matrix("nextn.post_projection.weight", target_width, _OWN_WIDTH)
    for i in range(2):
        _add_layer(writer, i, _OWN_WIDTH)
        writer.ones(f"blk.{i}.layer_output_scale.weight", 1)
    writer.close()
    return path


def _describe(writer: GgufWriter, architecture: str, width: int, sliding: tuple[bool, ...], window: int) -> None:
    g = writer.gguf
    g.add_context_length(2048)
    g.add_embedding_length(width)
    g.add_block_count(len(sliding))
    g.add_feed_forward_length(_FFN)
    g.add_head_count(_HEADS)
    g.add_head_count_kv(_KV_HEADS)
    g.add_key_length(_SIZE)
    g.add_value_length(_SIZE)
    g.add_uint32(f"{architecture}.attention.key_length_swa", _SIZE)
    g.add_uint32(f"{architecture}.attention.value_length_swa", _SIZE)
    g.add_uint32(f"{architecture}.rope.dimension_count_swa", _SIZE)
    g.add_layer_norm_rms_eps(1e-5)
    g.add_rope_freq_base(10_000.0)
    g.add_rope_dimension_count(_SIZE)
    g.add_sliding_window(window)
    g.add_array(f"{architecture}.attention.sliding_window_pattern", list(sliding))


def _add_layer(writer: GgufWriter, i: int, width: int) -> None:
    inner = _HEADS * _SIZE
    for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
        writer.ones(f"blk.{i}.{name}.weight", width)
    writer.ones(f"blk.{i}.attn_q_norm.weight", _SIZE)
    writer.matrix(f"blk.{i}.attn_q.weight", inner, width)
    writer.matrix(f"blk.{i}.attn_output.weight", width, inner)
    writer.matrix(f"blk.{i}.ffn_gate.weight", _FFN, width)
    writer.matrix(f"blk.{i}.ffn_up.weight", _FFN, width)
    writer.matrix(f"blk.{i}.ffn_down.weight", width, _FFN)
