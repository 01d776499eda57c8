"""Reading a GGUF header in Python, so that a damaged file is a sentence and not an abort.

Layout: github.com/ggml-org/ggml/blob/master/docs/gguf.md. Of arrays only short ones of numbers are kept (values per
layer): a vocabulary has hundreds of thousands of strings and nobody here wants them.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from specchat.llama.errors import ModelUnusable

_MAGIC: Final = b"GGUF"
_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
_LONGEST_KEPT: Final = 4096
"""Elements of an array of numbers that is kept: llama.cpp reads at most 512 layers."""
# (elements a block, bytes a block) of the tensor types llama.cpp reads: ggml/include/ggml.h, ggml-common.h.
_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip

_TOKENS: Final = "tokenizer.ggml.tokens"

Scalar = int | float | bool | str
Number = int | float | bool
Data = bytes | bytearray | mmap.mmap


class HeaderCutShort(Exception):
    """The bytes at hand end before the header does."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"The header needs at least its first {needed:,} bytes.")
        self.needed = needed
        """Bytes from the start of the file that are needed at least; with them, still more may be asked for."""


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
    arrays: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    """Arrays of numbers that are short enough to hold a value per layer; longer ones and texts are not kept."""

    @property
    def architecture(self) -> str:
        """The `general.architecture` value."""
        return str(self.metadata.get("general.architecture", ""))

    def of_architecture(self, key: str) -> Scalar | None:
        """The value under this architecture's prefix, such as `block_count`."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def array_of_architecture(self, key: str) -> tuple[Number, ...] | None:
        """The array of numbers under this architecture's prefix, such as `attention.head_count_kv` per layer."""
        return self.arrays.get(f"{self.architecture}.{key}")

    def number(self, key: str) -> int:
        """The whole number under this architecture's prefix; 0 where there is none, or something else."""
        value = self.of_architecture(key)
        return value if type(value) is int else 0

    @property
    def n_nextn(self) -> int:
        """NextN layers, which predict further tokens."""
        return self.number("nextn_predict_layers")

    @property
    def n_layer(self) -> int:
        """Layers of the model itself, NextN layers left out."""
        return self.number("block_count") - self.n_nextn

    @property
    def n_tokens(self) -> int:
        """Tokens of the vocabulary; of a file without one, those that it says its model has."""
        return self.array_lengths.get(_TOKENS) or self.number("vocab_size")


class _Cursor:
    """A position in the data; every read is checked against its end. Raises HeaderCutShort there."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.at = 0
        self.end = len(data)

    def need(self, n: int) -> None:
        """Make sure that `n` more bytes are at hand."""
        if self.at + n > self.end:
            raise HeaderCutShort(self.at + n)

    def scalar(self, layout: str) -> Number:
        size = struct.calcsize(layout)
        self.need(size)
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += size
        return value  # type: ignore[no-any-return]

    def count(self) -> int:
        return int(self.scalar("<Q"))

    def string(self) -> str:
        length = self.count()
        self.need(length)
        raw = self.data[self.at : self.at + length]
        self.at += length
        return raw.decode("utf-8", errors="replace")

    def skip_strings(self, n: int) -> None:
        self.need(8 * n)
        data, at, end, unpack = self.data, self.at, self.end, struct.Struct("<Q").unpack_from
        for left in range(n, 0, -1):
            if at + 8 * left > end:
                raise HeaderCutShort(at + 8 * left)
            at += 8 + unpack(data, at)[0]
        self.at = at
        self.need(0)

    def numbers(self, layout: str, n: int) -> tuple[Number, ...]:
        """An array of `n` values; empty, and only skipped, if it is too long to hold values of layers."""
        size = n * struct.calcsize(layout)
        self.need(size)
        start, self.at = self.at, self.at + size
        return struct.unpack_from(f"<{n}{layout[1]}", self.data, start) if n <= _LONGEST_KEPT else ()


def _read_array(cursor: _Cursor) -> tuple[int, tuple[Number, ...]]:
    """The number of elements and, of short arrays of numbers, the elements."""
    kind, n = int(cursor.scalar("<I")), cursor.count()
    if kind == _STRING:
        cursor.skip_strings(n)
    elif kind == _ARRAY:
        cursor.need(12 * n)
        for _ in range(n):
            _read_array(cursor)
    else:
        return n, cursor.numbers(_SCALARS[kind], n)
    return n, ()


@dataclass(slots=True)
class _Metadata:
    scalars: dict[str, Scalar] = field(default_factory=dict)
    lengths: dict[str, int] = field(default_factory=dict)
    arrays: dict[str, tuple[Number, ...]] = field(default_factory=dict)
    digest: str = ""


def _read_metadata(cursor: _Cursor, n: int) -> _Metadata:
    found = _Metadata()
    for _ in range(n):
        key, kind = cursor.string(), int(cursor.scalar("<I"))
        if kind == _STRING:
            found.scalars[key] = cursor.string()
        elif kind == _ARRAY:
            start = cursor.at
            found.lengths[key], values = _read_array(cursor)
            if values:
                found.arrays[key] = values
            if key == _TOKENS:
                found.digest = hashlib.sha256(cursor.data[start : cursor.at]).hexdigest()
        else:
            found.scalars[key] = cursor.scalar(_SCALARS[kind])
    return found


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


def _parse(data: Data) -> Header:
    cursor = _Cursor(data)
    cursor.at = 4
    cursor.scalar("<I")  # version: llama.cpp names the ones it reads
    n_tensors, n_metadata = cursor.count(), cursor.count()
    found = _read_metadata(cursor, n_metadata)
    tensors = {place.name: place for place in (_read_place(cursor) for _ in range(n_tensors))}
    end = max((place.offset + place.n_bytes for place in tensors.values()), default=0)
    alignment = found.scalars.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise struct.error("the alignment is no number")
    start = -(-cursor.at // alignment) * alignment
    return Header(found.scalars, found.lengths, found.digest, n_tensors, start + end, start, tensors, found.arrays)


_NONSENSE: Final = (struct.error, KeyError, RecursionError, OverflowError, MemoryError)


def _no_gguf(name: str | Path) -> ModelUnusable:
    return ModelUnusable(f"{name} is not a GGUF model: it does not begin with the letters GGUF.")


def _damaged(name: str | Path) -> ModelUnusable:
    return ModelUnusable(f"{name} is damaged: its header ends early or makes no sense. Download the model again.")


def _checked_length(header: Header, name: str | Path, size: int) -> Header:
    if header.data_bytes > size:
        raise ModelUnusable(
            f"{name} is incomplete: it has {size:,} bytes of at least {header.data_bytes:,}. Download the model again."
        )
    return header


def read_header(path: Path) -> Header:
    """Read and check the header of the GGUF file at `path`; of a file that has not changed it is read once.

    Raises ModelUnusable, with a sentence, for anything that isn't a whole GGUF file.
    """
    try:
        stat = path.stat()
        return _read_header(path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    except IsADirectoryError:
        raise ModelUnusable(f"{path} is a directory. Name a .gguf file inside it.") from None
    except FileNotFoundError:
        raise ModelUnusable(f"There is no file {path}.") from None
    except OSError as error:
        raise ModelUnusable(f"{path} can't be read: {error.strerror}.") from None
    except (HeaderCutShort, *_NONSENSE):
        raise _damaged(path) from None


@lru_cache(maxsize=32)
def _read_header(path: Path, _inode: int, size: int, _changed: int) -> Header:
    with path.open("rb") as file:
        if size == 0:
            raise ModelUnusable(f"{path} is empty. Download the model again.")
        if file.read(4) != _MAGIC:
            raise _no_gguf(path)
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _checked_length(_parse(data), path, size)


def header_of_prefix(data: bytes | bytearray, name: str, size: int) -> Header:
    """Read and check the header of a GGUF file of `size` bytes of which the first ones, `data`, are at hand.

    Raises HeaderCutShort where more of them are needed, ModelUnusable, naming the file `name`, for what no further
    bytes could make a GGUF file of that size.
    """
    if data[:4] != _MAGIC[: len(data)]:
        raise _no_gguf(name)
    try:
        return _checked_length(_parse(data), name, size)
    except HeaderCutShort as short:
        if short.needed > size:
            raise _damaged(name) from None
        raise
    except _NONSENSE:
        raise _damaged(name) from None


def joined(parts: Sequence[Header]) -> Header:
    """One header for a model split over several files, in their order: the metadata stand in the first.

    `data_bytes` is the sum of all parts; the places of tensors stay those within their own part.
    """
    return replace(
        parts[0],
        n_tensors=sum(part.n_tensors for part in parts),
        data_bytes=sum(part.data_bytes for part in parts),
        tensors={name: place for part in parts for name, place in part.tensors.items()},
    )
