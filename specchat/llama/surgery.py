"""Cutting a smaller model out of a larger one with llama.cpp's own quantiser."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path

from specchat.llama.errors import LlamaError
from specchat.llama.gguf import read_header
from specchat.llama.library import library
from specchat.llama.whole_file import written_whole


class FileType(IntEnum):
    """Quantisation of a whole file (the `llama_ftype` number)."""

    Q4_0 = 2
    Q4_1 = 3
    Q8_0 = 7


def _layers_to_drop(source: Path, layers: Sequence[int]) -> list[int]:
    n_layer = read_header(source).number("block_count")
    wanted = sorted(set(layers))
    if any(not 0 <= layer < n_layer for layer in wanted):
        raise LlamaError(f"{source.name} has {n_layer} layers; {wanted} can't all be dropped.")
    if len(wanted) >= n_layer:
        # A model without layers loads, then aborts the process at its first graph.
        raise LlamaError("At least one layer must stay.")
    return wanted


def rewrite(source: Path, destination: Path, *, drop: Sequence[int] = (), file_type: FileType | None = None) -> None:
    """Write `source` without the layers `drop`, re-quantised if `file_type` is given, to `destination`.

    The file appears whole or not at all, also with several processes writing it at once. Raises LlamaError for a
    set of layers that can't be dropped or a quantiser that fails, OSError when the directory can't be written.
    """
    layers = _layers_to_drop(source, drop)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(destination) as unfinished:
        _quantize(source, unfinished, layers, file_type)
        # The quantiser doesn't report a disk that filled up: the header knows how long the file must be.
        read_header(unfinished)


def _quantize(source: Path, destination: Path, layers: list[int], file_type: FileType | None) -> None:
    lib = library()
    params = lib.api.llama_model_quantize_default_params()
    if file_type is None:
        params.only_copy = True
    else:
        params.ftype = int(file_type)
        params.allow_requantize = True
        params.pure = True
    dropped = (ctypes.c_int32 * (len(layers) + 1))(*layers, -1)
    if layers:
        params.prune_layers = ctypes.cast(dropped, ctypes.POINTER(ctypes.c_int32))
    lib.log.forget()
    status = lib.api.llama_model_quantize(str(source).encode(), str(destination).encode(), ctypes.byref(params))
    if status != 0:
        raise LlamaError(f"{source.name} could not be rewritten: {lib.log.last_complaint() or 'no reason given'}.")
