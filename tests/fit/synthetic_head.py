"""EAGLE-3 and DFlash heads, and Gemma 4 with its assistants, of any dimensions, as files that are all header."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Gemma:
    """Dimensions of a `gemma4` model and of its assistant: of so many layers the last one sees everything."""

    width: int
    layers: int
    inner: int
    heads: int = 16
    kv_heads: int = 8
    """Of sliding layers."""
    wide_kv_heads: int = 1
    """Of those that see everything; they have keys alone, which serve as values too."""
    head: int = 256
    wide_head: int = 512
    window: int = 1024
    vocabulary: int = 262_144
    experts: int = 0
    expert_inner: int = 704
    own_width: int = 1024
    """The assistant's."""
    own_inner: int = 8192
    own_layers: int = 4
    wide_every: int = 6
    kind: Type = Type.Q4_K
    own_kind: Type = Type.Q8_0

    def model(self, path: Path) -> Path:
        """The model, with one matrix for input and output."""
        slides = [layer % self.wide_every != self.wide_every - 1 for layer in range(self.layers)]
        model = self._described(path, "gemma4", self.width, slides, self.inner, self.kind)
        if self.experts:
            model.set(expert_count=self.experts, expert_used_count=8, expert_feed_forward_length=self.expert_inner)
        model.embeddings(tied=True)
        for layer, short in enumerate(slides):
            self._add_layer(model, layer, short, self.width, self.inner)
            rows = (self.kv_heads * self.head) if short else (self.wide_kv_heads * self.wide_head)
            for name in ("attn_k", "attn_v") if short else ("attn_k",):
                model.tensor(f"blk.{layer}.{name}.weight", self.width, rows)
            model.norm(layer, "attn_k_norm", width=self.head if short else self.wide_head)
            if self.experts:
                self._add_experts(model, layer)
        return model.write()

    def assistant(self, path: Path) -> Path:
        """Its assistant: narrower layers without keys and values, between projections from and to the model's width."""
        slides = [True] * (self.own_layers - 1) + [False]
        model = self._described(path, "gemma4-assistant", self.own_width, slides, self.own_inner, self.own_kind)
        model.set(embedding_length_out=self.width, nextn_predict_layers=self.own_layers)
        model.set({"attention.shared_kv_layers": self.own_layers})
        model.embeddings(tied=True)
        model.tensor("nextn.pre_projection.weight", 2 * self.width, self.own_width)
        model.tensor("nextn.post_projection.weight", self.own_width, self.width)
        for layer, short in enumerate(slides):
            self._add_layer(model, layer, short, self.own_width, self.own_inner)
        return model.write()

    def _described(
        self, path: Path, architecture: str, width: int, slides: list[bool], inner: int, kind: Type
    ) -> SparseModel:
        model = SparseModel(
            path, architecture, width=width, layers=len(slides), vocabulary=self.vocabulary, kind=kind, named=False
        )
        model.unnamed()
        kv_heads = [self.kv_heads if short else self.wide_kv_heads for short in slides]
        model.set(vocab_size=self.vocabulary, feed_forward_length=inner, embedding_length_per_layer_input=0)
        model.set({"attention.head_count": self.heads, "attention.head_count_kv": kv_heads})
        model.set({"attention.sliding_window": self.window, "attention.sliding_window_pattern": slides})
        for suffix, length in (("", self.wide_head), ("_swa", self.head)):
            model.set({f"attention.key_length{suffix}": length, f"attention.value_length{suffix}": length})
            model.set({f"rope.dimension_count{suffix}": length})
        model.tensor("rope_freqs.weight", self.wide_head // 2)
        return model

    def _add_layer(self, model: SparseModel, layer: int, short: bool, width: int, inner: int) -> None:
        head = self.head if short else self.wide_head
        model.norm(layer, "attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", width=width)
        model.norm(layer, "attn_q_norm", width=head)
        model.norm(layer, "layer_output_scale", width=1)
        model.tensor(f"blk.{layer}.attn_q.weight", width, self.heads * head)
        model.tensor(f"blk.{layer}.attn_output.weight", self.heads * head, width)
        model.feed_forward(layer, inner)

    def _add_experts(self, model: SparseModel, layer: int) -> None:
        model.norm(layer, "pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2")
        model.tensor(f"blk.{layer}.ffn_gate_inp.scale", self.width)
        model.tensor(f"blk.{layer}.ffn_gate_inp.weight", self.width, self.experts, kind=Type.F32)
        model.tensor(f"blk.{layer}.ffn_gate_up_exps.weight", self.width, 2 * self.expert_inner, self.experts)
        model.tensor(f"blk.{layer}.ffn_down_exps.weight", self.expert_inner, self.width, self.experts, kind=Type.Q8_0)
        model.tensor(f"blk.{layer}.ffn_down_exps.scale", self.experts)


GEMMAS = {
    "12b": Gemma(3840, 48, 15_360),
    "26b-a4b": Gemma(2816, 30, 2112, wide_kv_heads=2, experts=128),
    "31b": Gemma(5376, 60, 21_504, heads=32, kv_heads=16, wide_kv_heads=4),
}
"""Gemma 4 in the dimensions of its published configurations."""
