"""EAGLE-3 and DFlash heads of any dimensions, as files that are all header."""

from __future__ import annotations

from pathlib import Path

from gguf import GGMLQuantizationType as Type

from tests.fit.sparse_model import SparseModel


def eagle(
    path: Path,
    *,
    width: int = 1024,
    target_width: int = 1024,
    heads: int = 16,
    kv_heads: int = 8,
    head: int = 64,
    inner: int = 3072,
    vocabulary: int = 8192,
    draft_vocabulary: int | None = 2048,
    own_embedding: bool = True,
    kind: Type = Type.Q8_0,
) -> Path:
    """`eagle3`: one layer that reads three of the target's, and an output matrix for some of its tokens."""
    model = SparseModel(path, "eagle3", width=width, layers=1, vocabulary=vocabulary, kind=kind, named=False)
    model.unnamed()
    model.set(feed_forward_length=inner, vocab_size=vocabulary, target_hidden_size=target_width)
    model.set(target_layers=[1, 3, 5])
    model.set({"attention.head_count": heads, "attention.head_count_kv": kv_heads})
    model.set({"attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head})
    model.tensor("fc.weight", 3 * target_width, width)
    model.norm(0, "attn_norm", "attn_norm_2", "ffn_norm")
    model.tensor("blk.0.attn_q.weight", 2 * width, heads * head)
    model.tensor("blk.0.attn_k.weight", 2 * width, kv_heads * head)
    model.tensor("blk.0.attn_v.weight", 2 * width, kv_heads * head)
    model.tensor("blk.0.attn_output.weight", heads * head, width)
    model.feed_forward(0, inner)
    model.tensor("output_norm.weight", width)
    if own_embedding:
        model.tensor("token_embd.weight", width, vocabulary)
    model.tensor("output.weight", width, draft_vocabulary or vocabulary)
    if draft_vocabulary is not None:
        model.tensor("d2t", draft_vocabulary, kind=Type.I64)
    return model.write()


def dflash(
    path: Path,
    *,
    width: int = 1024,
    layers: int = 4,
    taps: int = 3,
    heads: int = 16,
    kv_heads: int = 8,
    head: int = 64,
    inner: int = 3072,
    vocabulary: int = 8192,
    draft_vocabulary: int | None = None,
    own_embedding: bool = False,
    kind: Type = Type.Q8_0,
) -> Path:
    """`dflash`: layers that read `taps` of the target's, and the target's matrices unless it has its own."""
    model = SparseModel(path, "dflash", width=width, layers=layers, vocabulary=vocabulary, kind=kind, named=False)
    model.unnamed()
    model.set(feed_forward_length=inner, vocab_size=vocabulary, block_size=16, target_layers=list(range(taps)))
    model.set({"attention.head_count": heads, "attention.head_count_kv": kv_heads})
    model.set({"attention.key_length": head, "attention.value_length": head, "rope.dimension_count": head})
    model.mask(2)
    model.tensor("fc.weight", taps * width, width)
    model.tensor("enc.output_norm.weight", width)
    model.tensor("output_norm.weight", width)
    for layer in range(layers):
        model.attention(layer, heads=heads, kv_heads=kv_heads, head=head, normed=True)
        model.norm(layer, "ffn_norm")
        model.feed_forward(layer, inner)
    if own_embedding:
        model.tensor("token_embd.weight", width, vocabulary)
        model.tensor("output.weight", width, draft_vocabulary or vocabulary)
    if draft_vocabulary is not None:
        model.tensor("d2t", draft_vocabulary, kind=Type.I64)
    return model.write()
