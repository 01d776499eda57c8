"""Reading safetensors files with numpy alone.

Layout: github.com/huggingface/safetensors, section "Format": a 64-bit length, a JSON header of that length, then the
tensors' bytes, little-endian and in C order. The format's own package can't hand bfloat16 to numpy, and nearly every
checkpoint is stored in it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from specchat.heads.errors import CheckpointUnusable

_LONGEST_HEADER: Final = 100 << 20
"""Bytes; the format's own limit."""
_BFLOAT16: Final = "BF16"
_TYPES: Final = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", _BFLOAT16: "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_FLOATS: Final = ("F64", "F32", "F16", _BFLOAT16)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a file, whose bytes are read when its values are asked for."""

    name: str
    path: Path
    kind: str
    """The type's name in the file, such as `BF16`."""
    shape: tuple[int, ...]
    offset: int
    """From the start of the file."""

    def floats(self, rows: slice | NDArray[np.int64] = slice(None)) -> NDArray[np.float32]:
        """The values of `rows` along the first dimension. Raises CheckpointUnusable for anything but finite numbers."""
        if self.kind not in _FLOATS:
            raise CheckpointUnusable(
                f"{self.name} in {self.path.name} holds values of type {self.kind}; only 16-bit and 32-bit weights can "
                "be converted. Look for a checkpoint that is not quantised."
            )
        raw = self._raw()[rows]
        values = _widened(raw) if self.kind == _BFLOAT16 else raw.astype(np.float32)
        if not np.isfinite(values).all():
            raise CheckpointUnusable(
                f"{self.name} in {self.path.name} holds values that are no numbers. Download the checkpoint again."
            )
        return values

    def integers(self) -> NDArray[np.int64]:
        """All values, of a tensor of whole numbers. Raises CheckpointUnusable for another one."""
        if self.kind in _FLOATS or self.kind not in _TYPES:
            raise CheckpointUnusable(f"{self.name} in {self.path.name} holds no whole numbers but type {self.kind}.")
        return self._raw().astype(np.int64)

    def _raw(self) -> NDArray[Any]:
        if not math.prod(self.shape):
            return np.empty(self.shape, dtype=_TYPES[self.kind])
        return np.memmap(self.path, dtype=_TYPES[self.kind], mode="r", offset=self.offset, shape=self.shape)


def _widened(raw: NDArray[np.uint16]) -> NDArray[np.float32]:
    """A bfloat16 is the upper half of a float32."""
    return (raw.astype(np.uint32) << 16).view(np.float32)


def read_tensors(path: Path) -> dict[str, StoredTensor]:
    """The tensors in the file at `path`, by name. Raises CheckpointUnusable for what is no whole safetensors file."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            first = file.read(8)
            length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
            if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
                raise _damaged(path)
            header = json.loads(file.read(length))
    except OSError as error:
        raise CheckpointUnusable(f"{path} can't be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise _damaged(path) from None
    if not isinstance(header, dict):
        raise _damaged(path)
    header.pop("__metadata__", None)
    return {name: _place(path, name, entry, 8 + length, size) for name, entry in header.items()}


def _place(path: Path, name: str, entry: object, start: int, size: int) -> StoredTensor:
    if not isinstance(entry, Mapping):
        raise _damaged(path)
    kind, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(kind, str) or not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _damaged(path)
    begin, end = offsets
    if not begin <= end <= size - start:
        raise CheckpointUnusable(f"{path} is incomplete: {name} lies past its end. Download the checkpoint again.")
    if kind in _TYPES and end - begin != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize:
        raise _damaged(path)
    return StoredTensor(name, path, kind, tuple(shape), start + begin)


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _damaged(path: Path) -> CheckpointUnusable:
    return CheckpointUnusable(
        f"{path} is no safetensors file, or a damaged one: its header makes no sense. Download the checkpoint again."
    )
