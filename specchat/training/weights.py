"""What a head begins with, from the target's file, and the file it is written to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.heads.head_file import HeadFile, Matrix, Raw, Value
from specchat.llama import eagle3_file
from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import read_header
from specchat.training.forward import HeadShape

Floats = NDArray[np.float32]

_TARGETS: Final = ("llama",)
"""Architectures whose layers are built as the head's is, so that it can begin with a copy of one."""
_COPIED: Final = ("attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
_READS_PAIRS: Final = ("attn_q", "attn_k", "attn_v")
_NORMS: Final = ("attn_norm", "attn_norm_2", "ffn_norm")
_FIRST_SPREAD: Final = 0.02
"""Of the weights that read the token: with zeros, all would begin at the same slope."""
_F16: Final = 1


class Tensors:
    """The tensors of a GGUF file as numbers. Raises ModelUnusable for one that it lacks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header = read_header(path)
        self._data = np.memmap(path, dtype=np.uint8, mode="r", offset=self.header.data_start)

    def __contains__(self, name: str) -> bool:
        return name in self.header.tensors

    def rows(self, name: str, ids: NDArray[np.int64] | None = None) -> Floats:
        """The rows `ids` (None: all) of a matrix, dequantised [n, width]; a vector as one row."""
        import gguf

        stored = self._stored(name)
        stored = np.ascontiguousarray(stored if ids is None else stored[ids])
        kind = gguf.GGMLQuantizationType(self.header.tensors[name].kind)
        if kind is gguf.GGMLQuantizationType.F32:
            return stored.view(np.float32)
        if kind is gguf.GGMLQuantizationType.F16:
            return stored.view(np.float16).astype(np.float32)
        return np.asarray(gguf.dequantize(stored, kind), dtype=np.float32)

    def vector(self, name: str) -> Floats:
        """A tensor of one dimension."""
        values: Floats = self.rows(name)[0]
        return values

    def ids(self, name: str) -> NDArray[np.int64]:
        """A vector of whole numbers of 64 bits."""
        return self._stored(name).reshape(-1).view(np.int64)

    def _stored(self, name: str) -> NDArray[np.uint8]:
        place = self.header.tensors.get(name)
        if place is None or not place.n_bytes:
            raise ModelUnusable(f"{self.path} has no tensor {name} that can be read in its first file.")
        n_rows = place.shape[1] if len(place.shape) > 1 else 1
        return self._data[place.offset : place.offset + place.n_bytes].reshape(n_rows, -1)


def head_shape(target: Tensors) -> HeadShape:
    """The sizes of a head for `target`: one more of its layers. Raises ModelUnusable for a target of another build."""
    header = target.header
    if header.architecture not in _TARGETS:
        raise ModelUnusable(
            f"{target.path.name} is of architecture {header.architecture!r}. A head begins as a copy of its target's "
            f"last layer, which works for {', '.join(_TARGETS)} only. Choose another target."
        )

    def number(key: str, default: int | None = None) -> int:
        value = header.of_architecture(key)
        value = default if value is None else value
        if not isinstance(value, int) or value < 1:
            raise ModelUnusable(f"{target.path} does not say {key}, which a head for it must know.")
        return value

    width, heads, layers = number("embedding_length"), number("attention.head_count"), number("block_count")
    if layers < 4:
        raise ModelUnusable(f"{target.path.name} has {layers} layers; a head reads three, so it needs at least 4.")
    epsilon, theta = (header.of_architecture(k) for k in ("attention.layer_norm_rms_epsilon", "rope.freq_base"))
    return HeadShape(
        width=width,
        heads=heads,
        kv_heads=number("attention.head_count_kv", heads),
        head_size=number("attention.key_length", width // heads),
        ffn=number("feed_forward_length"),
        epsilon=float(epsilon or 1e-5),
        theta=float(theta or 10_000.0),
        # Early, middle and as late as the inputs of layers go: the last is what the head's layer continues from.
        taps=(2 if layers > 4 else 1, layers // 2, layers - 1),
        n_tokens=header.array_lengths["tokenizer.ggml.tokens"],
        n_ctx=number("context_length", 2048),
    )


def output_rows(target: Tensors, ids: NDArray[np.int64] | None = None) -> Floats:
    """Rows `ids` of the target's output matrix [n, width]; many models use their token embeddings."""
    return target.rows("output.weight" if "output.weight" in target else "token_embd.weight", ids)


def first_weights(target: Tensors, shape: HeadShape, rng: np.random.Generator) -> dict[str, Floats]:
    """A copy of the target's last layer, which reads the state as there and of the token next to nothing."""
    block = f"blk.{int(target.header.of_architecture('block_count') or 1) - 1}."

    def last(name: str) -> Floats:
        name = f"{block}{name}.weight"
        return np.array(target.vector(name) if name.endswith("norm.weight") else target.rows(name))

    weights = {name: last(name) for name in _COPIED}
    for name in _READS_PAIRS:
        own = last(name)
        token = rng.standard_normal(own.shape, dtype=np.float32) * np.float32(_FIRST_SPREAD * own.std())
        weights[name] = np.concatenate([token, own], axis=1)
    weights["attn_norm"] = np.ones(shape.width, np.float32)
    weights["attn_norm_2"] = last("attn_norm")
    weights["output_norm"] = np.array(target.vector("output_norm.weight"))
    return weights


def head_file(name: str, shape: HeadShape, weights: Mapping[str, Floats], ids: NDArray[np.int64]) -> HeadFile:
    """The file of a head with `weights` (`fc` and `output` among them) that drafts the target's tokens `ids`.

    Token embeddings are the target's. `fc` is stored in 16 bits whatever the others are: it reads states in which few
    numbers are a thousand times larger than the rest, and in blocks with a common scale the rest would be lost.
    """
    own: dict[str, Value] = {
        "context_length": shape.n_ctx,
        "embedding_length": shape.width,
        "block_count": 1,
        "feed_forward_length": shape.ffn,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size,
        "attention.layer_norm_rms_epsilon": shape.epsilon,
        "rope.freq_base": shape.theta,
        "rope.dimension_count": shape.head_size,
        "vocab_size": shape.n_tokens,
        eagle3_file.TAPPED_LAYERS: list(shape.taps),
        eagle3_file.TARGET_WIDTH: shape.width,
    }
    metadata: dict[str, Value] = {"general.name": name, "tokenizer.ggml.model": "none"}
    head = HeadFile(
        eagle3_file.ARCHITECTURE, metadata | {f"{eagle3_file.ARCHITECTURE}.{key}": value for key, value in own.items()}
    )
    for norm in _NORMS:
        head.vectors[f"blk.0.{norm}.weight"] = weights[norm]
    head.vectors["output_norm.weight"] = weights["output_norm"]
    for matrix in (*_READS_PAIRS, *(name for name in _COPIED if name not in _NORMS)):
        head.matrices.append(_matrix(f"blk.0.{matrix}.weight", weights[matrix]))
    head.matrices.append(_matrix("output.weight", weights["output"]))
    fused = np.ascontiguousarray(weights["fc"], dtype=np.float16)
    head.raws.append(Raw("fc.weight", fused.view(np.uint8), _F16))
    head.ids = ids
    return head


def _matrix(name: str, values: Floats) -> Matrix:
    rows, width = values.shape
    return Matrix(name, rows, width, lambda chosen: values[chosen])


def written_weights(path: Path) -> tuple[dict[str, Floats], NDArray[np.int64]]:
    """The weights of a head that `head_file` wrote, as they are after rounding, and its tokens."""
    tensors = Tensors(path)
    weights = {name: tensors.vector(f"blk.0.{name}.weight") for name in _NORMS}
    weights["output_norm"] = tensors.vector("output_norm.weight")
    for name in (*_READS_PAIRS, *(name for name in _COPIED if name not in _NORMS)):
        weights[name] = tensors.rows(f"blk.0.{name}.weight")
    weights["output"], weights["fc"] = tensors.rows("output.weight"), tensors.rows("fc.weight")
    return weights, tensors.ids(eagle3_file.TOKEN_IDS)
