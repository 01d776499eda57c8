"""Writes a tiny `step35` model with several NextN layers of random weights, each of which drafts one token further."""

from __future__ import annotations

from pathlib import Path

from tests.head_models import GgufWriter, add_tokenizer
from tests.tiny_model import vocabulary

_WIDTH, _HEADS, _KV_HEADS, _SIZE, _FFN, _WINDOW = 64, 4, 2, 16, 96, 32
_LAYERS = 2
_NAME = "step35"


def write_chained_model(path: Path, *, nextn: int = 3, trunk: bool = True, seed: int = 0) -> Path:
    """A model of width 64: of its two layers one has a sliding window, of its `nextn` drafting layers every other.

    `trunk`: False for a file that holds the drafting layers alone.
    """
    names, types = vocabulary()
    writer = GgufWriter(path, _NAME, seed)
    _describe(writer, nextn)
    add_tokenizer(writer, names, types)
    writer.matrix("token_embd.weight", len(names), _WIDTH, spread=1.0)
    writer.ones("output_norm.weight", _WIDTH)
    writer.matrix("output.weight", len(names), _WIDTH, spread=0.5)
    for i in range(0 if trunk else _LAYERS, _LAYERS + nextn):
        _add_layer(writer, i)
        if i >= _LAYERS:
            writer.matrix(f"blk.{i}.nextn.eh_proj.weight", _WIDTH, 2 * _WIDTH)
            writer.ones(f"blk.{i}.nextn.enorm.weight", _WIDTH)
            writer.ones(f"blk.{i}.nextn.hnorm.weight", _WIDTH)
    writer.close()
    return path


def _describe(writer: GgufWriter, nextn: int) -> None:
    g, count = writer.gguf, _LAYERS + nextn
    g.add_context_length(512)
    g.add_embedding_length(_WIDTH)
    # The count includes the layers that draft.
    g.add_block_count(count)
    g.add_feed_forward_length(_FFN)
    g.add_head_count(_HEADS)
    g.add_head_count_kv(_KV_HEADS)
    g.add_key_length(_SIZE)
    g.add_value_length(_SIZE)
    g.add_layer_norm_rms_eps(1e-5)
    g.add_rope_freq_base(10_000.0)
    g.add_rope_dimension_count(_SIZE)
    g.add_sliding_window(_WINDOW)
    g.add_array(f"{_NAME}.attention.sliding_window_pattern", [i % 2 == 1 for i in range(count)])
    g.add_expert_feed_forward_length(_FFN)
    g.add_uint32(f"{_NAME}.nextn_predict_layers", nextn)


def _add_layer(writer: GgufWriter, i: int) -> None:
    inner, narrow = _HEADS * _SIZE, _KV_HEADS * _SIZE
    writer.ones(f"blk.{i}.attn_norm.weight", _WIDTH)
    writer.ones(f"blk.{i}.ffn_norm.weight", _WIDTH)
    writer.matrix(f"blk.{i}.attn_q.weight", inner, _WIDTH)
    writer.matrix(f"blk.{i}.attn_k.weight", narrow, _WIDTH)
    writer.matrix(f"blk.{i}.attn_v.weight", narrow, _WIDTH)
    writer.matrix(f"blk.{i}.attn_output.weight", _WIDTH, inner)
    writer.matrix(f"blk.{i}.attn_gate.weight", _HEADS, _WIDTH)
    writer.matrix(f"blk.{i}.ffn_gate.weight", _FFN, _WIDTH)
    writer.matrix(f"blk.{i}.ffn_up.weight", _FFN, _WIDTH)
    writer.matrix(f"blk.{i}.ffn_down.weight", _WIDTH, _FFN)
