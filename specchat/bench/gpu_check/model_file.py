"""Writes a model of random weights: real in its shape and its costs, with words that mean nothing.

Its text is known all the same. The output matrix is the input embedding, one row further: after token t comes t + 1,
with a logit far above the others, since the layers add less to the residual stream than the embedding has put there.
So a fork between two ways to compute it is a fault and not a near tie. Where both matrices are one, t follows t.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

import gguf
import numpy as np

from specchat.bench.gpu_check.blocks import Tile
from specchat.bench.gpu_check.shapes import Shape, Tensor
from specchat.llama.whole_file import written_whole

FIRST_WORD = 300
"""Ids from here on are words; before them lie controls, bytes and the space."""
_CONTROLS, _BYTES = 3, 256
_CONTROL, _BYTE, _NORMAL = 3, 6, 1
_ALIGNMENT = 32


class NoRoom(Exception):
    """Files that the disk has no room for; the message is a sentence."""


def write_model(path: Path, shape: Shape, seed: int) -> Path:
    """Write `shape` to `path`, which appears whole or not at all. Raises NoRoom, and OSError as writing does."""
    free = shutil.disk_usage(path.parent).free
    if free < shape.n_bytes + (64 << 20):
        raise NoRoom(
            f"{path.parent} has {free / 1e9:.1f} GB free, but {shape.name} takes {shape.n_bytes / 1e9:.1f} GB. "
            "Name another place with --directory."
        )
    with written_whole(path) as unfinished:
        _write_header(unfinished, shape)
        with unfinished.open("r+b", buffering=0) as file:
            _pad(file, file.seek(0, os.SEEK_END))
            _Weights(shape, seed).write(file)
    return path


def _write_header(path: Path, shape: Shape) -> None:
    writer = gguf.GGUFWriter(path, shape.architecture)
    writer.add_name(f"specchat {shape.name} (random weights)")
    writer.add_context_length(1 << 15)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.inner)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head)
    writer.add_value_length(shape.head)
    writer.add_rope_dimension_count(shape.head)
    writer.add_rope_freq_base(shape.rope_base)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_words(writer, shape.vocabulary)
    for tensor in shape.tensors():
        dims = list(reversed(tensor.dims))
        writer.add_tensor_info(tensor.name, dims, np.dtype(np.float32), tensor.n_bytes, raw_dtype=tensor.kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()


def _add_words(writer: gguf.GGUFWriter, count: int) -> None:
    names = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(_BYTES)), "▁"]
    names += [f"▁w{i}" for i in range(len(names), count)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([-float(i) for i in range(count)])
    writer.add_token_types([_CONTROL] * _CONTROLS + [_BYTE] * _BYTES + [_NORMAL] * (count - _CONTROLS - _BYTES))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _pad(file: BinaryIO, length: int) -> None:
    file.write(bytes(-length % _ALIGNMENT))


class _Weights:
    """The data section of one model, from a few tiles of random blocks."""

    def __init__(self, shape: Shape, seed: int) -> None:
        self._shape = shape
        self._rng = np.random.default_rng(seed)
        self._tiles: dict[tuple[int, bool], Tile] = {}

    def write(self, file: BinaryIO) -> None:
        for tensor in self._shape.tensors():
            if tensor.value is not None:
                file.write(np.full(tensor.dims, tensor.value, dtype="<f4").tobytes())
            else:
                self._write_blocks(file, tensor)
            _pad(file, tensor.n_bytes)

    def _write_blocks(self, file: BinaryIO, tensor: Tensor) -> None:
        words = tensor.name in ("token_embd.weight", "output.weight")
        tile = self._tile(tensor, words)
        start = int(self._rng.integers(tile.count))
        if words:
            row_blocks = tensor.n_bytes // tensor.dims[1] // tile.block_bytes
            start = row_blocks if tensor.name == "token_embd.weight" else 0
        for piece in tile.read(start, tensor.n_bytes):
            written = 0
            while written < len(piece):
                written += file.write(piece[written:])

    def _tile(self, tensor: Tensor, words: bool) -> Tile:
        """Embeddings of size 1 an element; other matrices keep the size of what they are multiplied with."""
        key = int(tensor.kind), words
        if key not in self._tiles:
            spread = 1.0 if words else self._shape.width**-0.5
            self._tiles[key] = Tile(tensor.kind, spread, self._shape.vocabulary, self._rng)
        return self._tiles[key]
