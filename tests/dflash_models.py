"""Writes DFlash heads without the training: GGUF files with random weights, in a second or less."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from specchat.llama.gguf import read_header
from tests.head_models import GgufWriter

HEADS, KV_HEADS, SIZE = 4, 2, 16
"""Of the head's attention: it may be wider inside than the model."""
EPSILON = 1e-5
ROPE_BASE = 10_000.0


def write_dflash_head(
    path: Path,
    target: Path,
    *,
    layers: Sequence[int] = (1, 2, 3),
    own_layers: int = 2,
    block: int | None = 8,
    mask_token: int | None = 2,
    draft_vocab: int | None = None,
    own_output: bool = True,
    own_embedding: bool = False,
    width: int | None = None,
    vocab_size: int | None = None,
    sections: Sequence[int] | None = None,
    window: int = 0,
    causal: bool | None = None,
    markov: bool = False,
    size: int = SIZE,
    seed: int = 0,
) -> Path:
    """A `dflash` head of `own_layers` layers for the model at `target`, of its width and vocabulary.

    `layers`: those whose inputs it reads. `draft_vocab`: tokens it can draft, spread over the vocabulary; None: all.
    Without an output matrix or embeddings of its own it uses the target's. `width` and `vocab_size` are for files that
    lie. `sections`: rope dimensions that count each way (M-RoPE). `window`: of a sliding window in its first layer.
    """
    header = read_header(target)
    own, tokens = width or header.number("embedding_length"), header.array_lengths["tokenizer.ggml.tokens"]
    writer = GgufWriter(path, "dflash", seed)
    _describe(writer, own, own_layers, header.number("context_length"), size)
    g = writer.gguf
    g.add_vocab_size(tokens if vocab_size is None else vocab_size)
    for key, number in (("dflash.block_size", block), ("tokenizer.ggml.mask_token_id", mask_token)):
        if number is not None:
            g.add_uint32(key, number)
    for key, values in (("target_layers", layers), ("rope.dimension_sections", sections)):
        if values:
            g.add_array(f"dflash.{key}", list(values))
    if window:
        g.add_sliding_window(window)
        g.add_array("dflash.attention.sliding_window_pattern", [i == 0 for i in range(own_layers)])
    if causal is not None:
        g.add_bool("dflash.attention.causal", causal)
    _add_weights(writer, own, own_layers, max(len(layers), 1), size)
    if own_output:
        _add_output(writer, own, tokens, draft_vocab)
    if own_embedding:
        writer.matrix("token_embd.weight", tokens, own, spread=1.0)
    if markov:
        writer.matrix("markov_w1.weight", tokens, 8)
        writer.matrix("markov_w2.weight", draft_vocab or tokens, 8)
    writer.close()
    return path


def _describe(writer: GgufWriter, width: int, layers: int, context: int, size: int) -> None:
    g = writer.gguf
    g.add_context_length(context or 512)
    g.add_embedding_length(width)
    g.add_block_count(layers)
    g.add_feed_forward_length(2 * width)
    g.add_head_count(HEADS)
    g.add_head_count_kv(KV_HEADS)
    g.add_key_length(size)
    g.add_value_length(size)
    g.add_layer_norm_rms_eps(EPSILON)
    g.add_rope_freq_base(ROPE_BASE)
    g.add_rope_dimension_count(size)
    g.add_tokenizer_model("none")


def _add_weights(writer: GgufWriter, width: int, layers: int, taps: int, size: int) -> None:
    writer.matrix("fc.weight", width, taps * width)
    _norm(writer, "enc.output_norm.weight", width)
    _norm(writer, "output_norm.weight", width)
    for i in range(layers):
        for name, n in (("attn_norm", width), ("ffn_norm", width), ("attn_q_norm", size), ("attn_k_norm", size)):
            _norm(writer, f"blk.{i}.{name}.weight", n)
        writer.matrix(f"blk.{i}.attn_q.weight", HEADS * size, width)
        writer.matrix(f"blk.{i}.attn_k.weight", KV_HEADS * size, width)
        writer.matrix(f"blk.{i}.attn_v.weight", KV_HEADS * size, width)
        writer.matrix(f"blk.{i}.attn_output.weight", width, HEADS * size)
        writer.matrix(f"blk.{i}.ffn_gate.weight", 2 * width, width)
        writer.matrix(f"blk.{i}.ffn_up.weight", 2 * width, width)
        writer.matrix(f"blk.{i}.ffn_down.weight", width, 2 * width)


def _add_output(writer: GgufWriter, width: int, tokens: int, draft_vocab: int | None) -> None:
    writer.matrix("output.weight", draft_vocab or tokens, width, spread=3 * width**-0.5)
    if draft_vocab is not None:
        writer.gguf.add_tensor("d2t", (np.arange(draft_vocab, dtype=np.int64) * tokens) // draft_vocab)


def _norm(writer: GgufWriter, name: str, size: int) -> None:
    """Weights that are not all ones: a norm left out, or one taken for another, is to be seen."""
    writer.add(name, (1 + 0.4 * np.sin(np.arange(size) + len(name))).astype(np.float32))
