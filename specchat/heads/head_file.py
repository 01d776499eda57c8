"""A head as it will stand in a GGUF file, and writing it: matrix by matrix, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specchat.heads.errors import CheckpointUnusable, ConversionStopped
from specchat.heads.kinds import WeightType
from specchat.llama.eagle3_file import TOKEN_IDS
from specchat.llama.gguf import read_header
from specchat.llama.whole_file import written_whole

Floats = NDArray[np.float32]
Value = int | float | bool | str | Sequence[int]
Progress = Callable[[int, int], None]
"""Hears bytes written and bytes to write."""

_PIECE: Final = 1 << 22
"""Values that are widened and quantised at once: 16 MB."""
_BLOCK: Final = 32
"""Values that share a scale in Q8_0: rows of another width can't be stored so."""
_LARGEST_F16: Final = 65504.0
_FILE_TYPES: Final = {WeightType.F32: 0, WeightType.F16: 1, WeightType.Q8_0: 7}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix [rows, width] that is read a few rows at a time."""

    name: str
    rows: int
    width: int
    read: Callable[[NDArray[np.int64]], Floats]
    """The values [n, width] of the rows with these numbers."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A matrix whose rows are taken over as they are: [rows, bytes a row] of the ggml type with the number `kind`."""

    name: str
    data: NDArray[np.uint8]
    kind: int


@dataclass(slots=True)
class HeadFile:
    """Metadata and tensors of a head."""

    architecture: str
    metadata: dict[str, Value]
    """By full key; whole numbers are stored in 32 bits."""
    vectors: dict[str, Floats] = field(default_factory=dict)
    """Norms and biases, which stay 32 bits wide."""
    matrices: list[Matrix] = field(default_factory=list)
    raws: list[Raw] = field(default_factory=list)
    ids: NDArray[np.int64] | None = None
    """The target's token for each row of the head's output matrix, as the tensor TOKEN_IDS; None: all, in order."""

    def write(
        self,
        destination: Path,
        kind: WeightType,
        *,
        progress: Progress = lambda _done, _all: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Write the file to `destination`, its matrices as `kind`; those whose rows don't divide into blocks as F16.

        It appears whole or not at all. Raises CheckpointUnusable for values that can't be stored, ConversionStopped,
        OSError.
        """
        with written_whole(destination) as unfinished:
            _Writing(self, kind, progress, cancelled).to(unfinished)
            # The header knows how long the file must be.
            read_header(unfinished)


def _add(writer: Any, key: str, value: Value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value))


class _Writing:
    """One file being written; a matrix is in memory at a time, in the type it is stored in."""

    def __init__(self, head: HeadFile, kind: WeightType, progress: Progress, cancelled: Callable[[], bool]) -> None:
        import gguf

        self._types = gguf.GGMLQuantizationType
        self._quantize = gguf.quantize
        self._byte_shape = gguf.quant_shape_to_byte_shape
        self._head = head
        self._kind = kind
        self._progress = progress
        self._cancelled = cancelled
        self._done = self._all = 0

    def to(self, path: Path) -> None:
        import gguf

        writer = gguf.GGUFWriter(path, self._head.architecture)
        try:
            self._announce(writer)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            for tensor in self._tensors():
                writer.write_tensor_data(tensor)
        finally:
            writer.close()

    def _announce(self, writer: Any) -> None:
        head = self._head
        writer.add_file_type(_FILE_TYPES[self._kind])
        for key, value in head.metadata.items():
            _add(writer, key, value)
        for name, vector in head.vectors.items():
            writer.add_tensor_info(name, vector.shape, vector.dtype, vector.nbytes)
        for matrix in head.matrices:
            shape, kind = (matrix.rows, matrix.width), self._type_of(matrix)
            stored = self._byte_shape(shape, kind)
            self._all += int(np.prod(stored))
            writer.add_tensor_info(matrix.name, stored, np.dtype(np.uint8), int(np.prod(stored)), raw_dtype=kind)
        for raw in head.raws:
            writer.add_tensor_info(
                raw.name, raw.data.shape, raw.data.dtype, raw.data.nbytes, raw_dtype=self._types(raw.kind)
            )
        if head.ids is not None:
            writer.add_tensor_info(TOKEN_IDS, head.ids.shape, head.ids.dtype, head.ids.nbytes)

    def _tensors(self) -> Iterator[NDArray[Any]]:
        head = self._head
        yield from head.vectors.values()
        for matrix in head.matrices:
            yield self._stored(matrix)
        for raw in head.raws:
            yield np.ascontiguousarray(raw.data)
        if head.ids is not None:
            yield head.ids

    def _type_of(self, matrix: Matrix) -> Any:
        kind = self._kind
        if kind is WeightType.Q8_0 and matrix.width % _BLOCK:
            kind = WeightType.F16
        return self._types[kind.name]

    def _stored(self, matrix: Matrix) -> NDArray[np.uint8]:
        """The matrix in its type [rows, bytes a row]."""
        kind = self._type_of(matrix)
        stored = np.empty(self._byte_shape((matrix.rows, matrix.width), kind), dtype=np.uint8)
        step = max(1, _PIECE // matrix.width)
        for start in range(0, matrix.rows, step):
            if self._cancelled():
                raise ConversionStopped("Stopped; nothing was written.")
            rows = np.arange(start, min(start + step, matrix.rows), dtype=np.int64)
            values = matrix.read(rows)
            if kind is not self._types.F32 and np.abs(values).max(initial=0) > _LARGEST_F16:
                raise CheckpointUnusable(f"{matrix.name} holds values too large for {kind.name}. Use --type f32.")
            piece = self._quantize(np.ascontiguousarray(values), kind)
            stored[rows[0] : rows[-1] + 1] = piece.view(np.uint8).reshape(len(rows), -1)
            self._done += stored[rows[0] : rows[-1] + 1].nbytes
            self._progress(self._done, self._all)
        return stored
