"""Reading a GGUF header in Python, so that a damaged file is a sentence and not an abort.

Layout: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Values of arrays are skipped, not kept: a vocabulary has
hundreds of thousands of strings and nobody here wants them.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specchat.llama.errors import ModelUnusable

_MAGIC: Final = b"GGUF"
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
# (elements a block, bytes a block) of the tensor types llama.cpp reads: ggml/include/ggml.h, ggml-common.h.
_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class Header:
    """What a GGUF file says about itself."""

    metadata: dict[str, Scalar]
    """Scalar values only."""
    array_lengths: dict[str, int]
    vocabulary_digest: str
    """Hash of the token texts as they stand in the file: equal for files of one vocabulary; empty without one."""
    n_tensors: int
    data_bytes: int
    """Bytes that the file must have, from its start to the end of its last tensor."""
    data_start: int
    """Where the data section begins."""
    tensors: dict[str, TensorPlace]

    @property
    def architecture(self) -> str:
        """The `general.architecture` value."""
        return str(self.metadata.get("general.architecture", ""))

    def of_architecture(self, key: str) -> Scalar | None:
        """The value under this architecture's prefix, such as `block_count`."""
        return self.metadata.get(f"{self.architecture}.{key}")


class _Cursor:
    """A position in the mapped file; every read is checked against its end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def scalar(self, layout: str) -> int | float | bool:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value  # type: ignore[no-any-return]

    def count(self) -> int:
        return int(self.scalar("<Q"))

    def string(self) -> str:
        length = self.count()
        if length > len(self.data) - self.at:
            raise struct.error("a string runs past the end")
        raw = self.data[self.at : self.at + length]
        self.at += length
        return raw.decode("utf-8", errors="replace")

    def skip_strings(self, n: int) -> None:
        data, at, end, unpack = self.data, self.at, len(self.data), struct.Struct("<Q").unpack_from
        for _ in range(n):
            at += 8 + unpack(data, at)[0]
            if at > end:
                raise struct.error("a string runs past the end")
        self.at = at


def _read_array(cursor: _Cursor) -> int:
    kind, n = int(cursor.scalar("<I")), cursor.count()
    if n > len(cursor.data):
        raise struct.error("an array runs past the end")
    if kind == _STRING:
        cursor.skip_strings(n)
    elif kind == _ARRAY:
        for _ in range(n):
            _read_array(cursor)
    else:
        cursor.at += n * struct.calcsize(_SCALARS[kind])
    return n


_TOKENS: Final = "tokenizer.ggml.tokens"


def _read_metadata(cursor: _Cursor, n: int) -> tuple[dict[str, Scalar], dict[str, int], str]:
    scalars: dict[str, Scalar] = {}
    lengths: dict[str, int] = {}
    digest = ""
    for _ in range(n):
        key, kind = cursor.string(), int(cursor.scalar("<I"))
        if kind == _STRING:
            scalars[key] = cursor.string()
        elif kind == _ARRAY:
            start = cursor.at
            lengths[key] = _read_array(cursor)
            if key == _TOKENS:
                digest = hashlib.sha256(cursor.data[start : cursor.at]).hexdigest()
        else:
            scalars[key] = cursor.scalar(_SCALARS[kind])
    return scalars, lengths, digest


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """Where one tensor lies in its file."""

    name: str
    shape: tuple[int, ...]
    """Elements a dimension, the fastest first: (width, rows) of a matrix."""
    kind: int
    """The `ggml_type` number."""
    offset: int
    """From the start of the data section."""

    @property
    def n_bytes(self) -> int:
        """Its size; 0 for a type unknown here."""
        # An unknown type is llama.cpp's to refuse; here it only can't be measured.
        per_block, block_bytes = _BLOCKS.get(self.kind, (1, 0))
        return math.prod(self.shape) // per_block * block_bytes


def _read_place(cursor: _Cursor) -> TensorPlace:
    name = cursor.string()
    n_dims = int(cursor.scalar("<I"))
    if not 1 <= n_dims <= 4:
        raise struct.error("a tensor has an impossible number of dimensions")
    shape = tuple(cursor.count() for _ in range(n_dims))
    return TensorPlace(name, shape, int(cursor.scalar("<I")), cursor.count())


def _parse(data: mmap.mmap) -> Header:
    cursor = _Cursor(data)
    cursor.at = 4
    cursor.scalar("<I")  # version: llama.cpp names the ones it reads
    n_tensors, n_metadata = cursor.count(), cursor.count()
    metadata, lengths, digest = _read_metadata(cursor, n_metadata)
    tensors = {place.name: place for place in (_read_place(cursor) for _ in range(n_tensors))}
    end = max((place.offset + place.n_bytes for place in tensors.values()), default=0)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise struct.error("the alignment is no number")
    start = -(-cursor.at // alignment) * alignment
    return Header(metadata, lengths, digest, n_tensors, start + end, start, tensors)


def read_header(path: Path) -> Header:
    """Read and check the header of the GGUF file at `path`.

    Raises ModelUnusable, with a sentence, for anything that isn't a whole GGUF file.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ModelUnusable(f"{path} is empty. Download the model again.")
            if file.read(4) != _MAGIC:
                raise ModelUnusable(f"{path} is not a GGUF model: it does not begin with the letters GGUF.")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                header = _parse(data)
    except IsADirectoryError:
        raise ModelUnusable(f"{path} is a directory. Name a .gguf file inside it.") from None
    except FileNotFoundError:
        raise ModelUnusable(f"There is no file {path}.") from None
    except OSError as error:
        raise ModelUnusable(f"{path} can't be read: {error.strerror}.") from None
    except (struct.error, KeyError, RecursionError, OverflowError, MemoryError):
        raise ModelUnusable(
            f"{path} is damaged: its header ends early or makes no sense. Download the model again."
        ) from None
    if header.data_bytes > size:
        raise ModelUnusable(
            f"{path} is incomplete: it has {size:,} bytes of at least {header.data_bytes:,}. Download the model again."
        )
    return header
