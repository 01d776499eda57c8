"""Describes a model and writes it as a file that is all header: its weights are a hole.

llama.cpp plans such a model (`no_alloc`) as it would the real one; on disk it takes as much as its tensor list.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

from tests.tiny_model import LETTERS

Value = int | float | bool | str | Sequence[int] | Sequence[bool]


class SparseModel:
    """One file being described; `write` makes it. Without `named` it has no vocabulary, which takes the most time."""

    def __init__(
        self, path: Path, architecture: str, *, width: int, layers: int, vocabulary: int, kind: Type, named: bool = True
    ) -> None:
        self.path, self.width, self.layers, self.vocabulary, self.kind = path, width, layers, vocabulary, kind
        self._writer = gguf.GGUFWriter(path, architecture)
        self._architecture = architecture
        self.set(context_length=1 << 17, embedding_length=width, block_count=layers)
        self.set({"attention.layer_norm_rms_epsilon": 1e-5})
        if named:
            self._add_vocabulary()

    def unnamed(self) -> None:
        """Say that there is no vocabulary, so that llama.cpp makes up tokens: as many as `vocab_size` says."""
        self._writer.add_tokenizer_model("no_vocab")

    def mask(self, token: int) -> None:
        """The token that stands for one that is not known."""
        self._writer.add_uint32("tokenizer.ggml.mask_token_id", token)

    def set(self, values: dict[str, Value] | None = None, **more: Value) -> None:
        """Hyperparameters under the architecture's prefix."""
        for name, value in {**(values or {}), **more}.items():
            key = f"{self._architecture}.{name}"
            if isinstance(value, bool):
                self._writer.add_bool(key, value)
            elif isinstance(value, int):
                self._writer.add_uint32(key, value)
            elif isinstance(value, float):
                self._writer.add_float32(key, value)
            elif isinstance(value, str):
                self._writer.add_string(key, value)
            else:
                self._writer.add_array(key, list(value))

    def _add_vocabulary(self) -> None:
        names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", *LETTERS]
        names += [f"w{i}" for i in range(self.vocabulary - len(names))]
        self._writer.add_tokenizer_model("llama")
        self._writer.add_token_list(names)
        self._writer.add_token_scores([-float(i) for i in range(len(names))])
        self._writer.add_token_types([3] * 3 + [6] * 256 + [1] * (len(names) - 259))
        self._writer.add_bos_token_id(1)
        self._writer.add_eos_token_id(2)

    def tensor(self, name: str, *shape: int, kind: Type | None = None) -> None:
        """A tensor of `shape`, the fastest dimension first; vectors and odd rows are f32."""
        kind = kind if kind is not None else (self.kind if len(shape) > 1 else Type.F32)
        block, block_bytes = gguf.GGML_QUANT_SIZES[kind]
        if shape[0] % block:
            kind, block, block_bytes = Type.F32, 1, 4
        size = math.prod(shape) // block * block_bytes
        self._writer.add_tensor_info(name, list(reversed(shape)), np.dtype(np.float32), size, raw_dtype=kind)

    def embeddings(self, *, tied: bool) -> None:
        """The input embedding, the output norm and, untied, an output matrix."""
        self.tensor("token_embd.weight", self.width, self.vocabulary)
        self.tensor("output_norm.weight", self.width)
        if not tied:
            self.tensor("output.weight", self.width, self.vocabulary)

    def norm(self, layer: int, *names: str, width: int | None = None) -> None:
        """Vectors of one layer."""
        for name in names:
            self.tensor(f"blk.{layer}.{name}.weight", width or self.width)

    def attention(
        self, layer: int, *, heads: int, kv_heads: int, head: int, normed: bool = False, gated: bool = False
    ) -> None:
        """Query, key, value and output matrices of one layer; gated queries are twice as wide."""
        self.norm(layer, "attn_norm")
        self.tensor(f"blk.{layer}.attn_q.weight", self.width, (2 if gated else 1) * heads * head)
        self.tensor(f"blk.{layer}.attn_k.weight", self.width, kv_heads * head)
        self.tensor(f"blk.{layer}.attn_v.weight", self.width, kv_heads * head)
        self.tensor(f"blk.{layer}.attn_output.weight", heads * head, self.width)
        if normed:
            self.norm(layer, "attn_q_norm", "attn_k_norm", width=head)

    def feed_forward(self, layer: int, inner: int, suffix: str = "") -> None:
        """A gated feed-forward block."""
        self.tensor(f"blk.{layer}.ffn_gate{suffix}.weight", self.width, inner)
        self.tensor(f"blk.{layer}.ffn_up{suffix}.weight", self.width, inner)
        self.tensor(f"blk.{layer}.ffn_down{suffix}.weight", inner, self.width)

    def experts(self, layer: int, inner: int, count: int) -> None:
        """A router and `count` gated feed-forward blocks."""
        self.tensor(f"blk.{layer}.ffn_gate_inp.weight", self.width, count, kind=Type.F32)
        self.tensor(f"blk.{layer}.ffn_gate_exps.weight", self.width, inner, count)
        self.tensor(f"blk.{layer}.ffn_up_exps.weight", self.width, inner, count)
        self.tensor(f"blk.{layer}.ffn_down_exps.weight", inner, self.width, count)

    def write(self) -> Path:
        """Write the header; the file's length is that of the whole model, without its blocks."""
        self._writer.write_header_to_file()
        self._writer.write_kv_data_to_file()
        self._writer.write_ti_data_to_file()
        self._writer.close()
        tensors = [place for part in self._writer.tensors for place in part.values()]
        with self.path.open("r+b") as file:
            start = -(-file.seek(0, 2) // 32) * 32
            file.truncate(start + sum(-(-place.nbytes // 32) * 32 for place in tensors))
        return self.path
