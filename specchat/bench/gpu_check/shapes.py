"""The shapes of public models, the types their matrices are stored in, and what is measured with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import gguf
from gguf import GGMLQuantizationType as Kind

PEAK_LOGIT = 40.0
"""What the next token's logit stands above the others: no rounding and no temperature up to 1 moves it."""
_LAYER_SHARE = 0.02
"""Weight of the norms before each part of a layer: what layers add stays below what the embedding holds."""


class Mix(StrEnum):
    """Which types a quantised file is made of; the names are llama.cpp's."""

    Q4_K_M = "Q4_K_M"
    Q8_0 = "Q8_0"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor to be written; `value` is None for a matrix of random blocks, else what a vector is filled with."""

    name: str
    dims: tuple[int, ...]
    """The fastest first: (inputs, outputs) of a matrix."""
    kind: Kind
    value: float | None = None

    @property
    def n_bytes(self) -> int:
        """Its size in the file, without padding."""
        per_block, block_bytes = gguf.GGML_QUANT_SIZES[self.kind]
        return int(math.prod(self.dims) // per_block * block_bytes)


@dataclass(frozen=True, slots=True)
class Shape:
    """One decoder: `llama` or `qwen3`, whose queries and keys are normed."""

    name: str
    architecture: str
    width: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    """Width of one head."""
    inner: int
    """Width of the feed-forward block."""
    vocabulary: int
    rope_base: float
    mix: Mix
    tied: bool = False
    """Whether the input embedding is the output matrix too."""

    def tensors(self) -> Iterator[Tensor]:
        """All tensors in the order in which they lie in the file."""
        yield Tensor("token_embd.weight", (self.width, self.vocabulary), self._kind("token_embd", 0))
        yield self._vector("output_norm", self.width, PEAK_LOGIT / self.width)
        if not self.tied:
            yield Tensor("output.weight", (self.width, self.vocabulary), self._kind("output", 0))
        for layer in range(self.layers):
            yield from self._layer(layer)

    def _layer(self, layer: int) -> Iterator[Tensor]:
        prefix, queries, keys = f"blk.{layer}", self.heads * self.head, self.kv_heads * self.head
        for norm in ("attn_norm", "ffn_norm"):
            yield self._vector(f"{prefix}.{norm}", self.width, _LAYER_SHARE)
        if self.architecture == "qwen3":
            for norm in ("attn_q_norm", "attn_k_norm"):
                yield self._vector(f"{prefix}.{norm}", self.head, 1.0)
        for name, inputs, outputs in (
            ("attn_q", self.width, queries),
            ("attn_k", self.width, keys),
            ("attn_v", self.width, keys),
            ("attn_output", queries, self.width),
            ("ffn_gate", self.width, self.inner),
            ("ffn_up", self.width, self.inner),
            ("ffn_down", self.inner, self.width),
        ):
            yield Tensor(f"{prefix}.{name}.weight", (inputs, outputs), self._kind(name, layer))

    def _vector(self, name: str, width: int, value: float) -> Tensor:
        return Tensor(f"{name}.weight", (width,), Kind.F32, value)

    def _kind(self, name: str, layer: int) -> Kind:
        if self.mix is Mix.Q8_0:
            return Kind.Q8_0
        # A real Q4_K_M keeps an untied input embedding in Q4_K. Here it has the output's bytes, and lies on the host.
        if name in ("token_embd", "output"):
            return Kind.Q6_K
        return Kind.Q6_K if name in ("attn_v", "ffn_down") and self._gets_more_bits(layer) else Kind.Q4_K

    def _gets_more_bits(self, layer: int) -> bool:
        """llama.cpp's choice for Q4_K_M: the first and the last eighth, and every third layer between."""
        eighth = self.layers // 8
        return layer < eighth or layer >= 7 * self.layers // 8 or (layer - eighth) % 3 == 2

    @property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors())


@dataclass(frozen=True, slots=True)
class ShapePair:
    """A target and its draft, of one vocabulary."""

    name: str
    target: Shape
    draft: Shape


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured; all counts are tokens (rows)."""

    context: int
    prompt: int
    """Held in the cache while passes and answers are timed."""
    long: int
    """Held for the second, shorter curve."""
    repeats: int
    """Passes timed for each point of the curve."""
    tokens: int
    """Written in each answer."""
    depths: tuple[int, ...]
    alphas: tuple[float, ...] = (0.6, 0.8, 0.9)
    rows: int = 64
    """The longest pass."""
    threads: int | None = None
    """Of the CPU; None: all that may be used."""


# Up to 8 rows, CUDA multiplies with the kernels of single rows; 9 and more take others.
REAL_PLAN = Plan(context=8192, prompt=512, long=4096, repeats=9, tokens=192, depths=(1, 2, 3, 5, 7, 15))
TOY_PLAN = Plan(context=256, prompt=64, long=128, repeats=2, tokens=32, depths=(1, 3), threads=1)

_LLAMA_WORDS, _QWEN_WORDS, _TOY_WORDS = 128_256, 151_936, 1_024
PAIRS = {
    pair.name: pair
    for pair in (
        ShapePair(
            "8b",
            Shape("llama-8b", "llama", 4096, 32, 32, 8, 128, 14_336, _LLAMA_WORDS, 5e5, Mix.Q4_K_M),
            Shape("llama-1b", "llama", 2048, 16, 32, 8, 64, 8192, _LLAMA_WORDS, 5e5, Mix.Q8_0, tied=True),
        ),
        ShapePair(
            "14b",
            Shape("qwen3-14b", "qwen3", 5120, 40, 40, 8, 128, 17_408, _QWEN_WORDS, 1e6, Mix.Q4_K_M),
            Shape("qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 128, 3072, _QWEN_WORDS, 1e6, Mix.Q8_0, tied=True),
        ),
    )
}
TOY_PAIRS = {
    pair.name: pair
    for pair in (
        ShapePair(
            "toy-llama",
            Shape("toy-llama-target", "llama", 256, 2, 4, 2, 64, 512, _TOY_WORDS, 1e4, Mix.Q4_K_M),
            Shape("toy-llama-draft", "llama", 256, 1, 4, 2, 64, 512, _TOY_WORDS, 1e4, Mix.Q4_K_M, tied=True),
        ),
        ShapePair(
            "toy-qwen3",
            Shape("toy-qwen3-target", "qwen3", 256, 2, 2, 1, 128, 512, _TOY_WORDS, 1e4, Mix.Q8_0),
            Shape("toy-qwen3-draft", "qwen3", 256, 1, 2, 1, 128, 512, _TOY_WORDS, 1e4, Mix.Q8_0, tied=True),
        ),
    )
}
