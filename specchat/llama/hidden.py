"""Hidden states that llama.cpp hands out beside the logits: inputs of layers, and what a NextN head is fed with.

The functions are exported under C++ names and come from a header that calls itself work in progress, so each is
looked up before it is used: its plain name first, then the names that the Itanium ABI and MSVC give it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specchat.llama.errors import DecodeFailed, LlamaError
from specchat.llama.library import library

States = NDArray[np.float32]

_C_NAMES: Final = {
    "llama_set_embeddings_layer_inp": (
        "_Z30llama_set_embeddings_layer_inpP13llama_contextjb",
        "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
    ),
    "llama_get_embeddings_layer_inp": (
        "_Z30llama_get_embeddings_layer_inpP13llama_contextj",
        "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
    ),
    "llama_set_embeddings_nextn": (
        "_Z26llama_set_embeddings_nextnP13llama_contextbb",
        "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
    ),
    "llama_get_embeddings_nextn": (
        "_Z26llama_get_embeddings_nextnP13llama_context",
        "?llama_get_embeddings_nextn@@YAPEAMPEAUllama_context@@@Z",
    ),
    "llama_set_nextn_layer_offset": (
        "_Z28llama_set_nextn_layer_offsetP13llama_contexti",
        "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
    ),
}

TAPPED_ARCHITECTURES: Final = frozenset(
    {
        "llama", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "qwen4exp", "gemma4", "gpt-oss",
        "nemotron_h", "lfm2", "mimo2", "minimax-m2", "minimax-01", "deepseek4", "bailingmoe3", "hunyuan_vl",
        "nanbeige", "muse-glimmer",
    }
)  # fmt: skip
"""Architectures whose graphs fill the inputs of layers; for any other the next pass aborts the process."""


_MOST_VIEWS: Final = 64


class HiddenStatesMissing(LlamaError):
    """A build or a model that hands out no hidden states; the message says why, and what becomes of the answer."""


class _Functions:
    """The functions of this build. Raises HiddenStatesMissing for one that it doesn't export."""

    def __init__(self) -> None:
        context = library().api.llama_context_p_ctypes
        self.set_layer = _function("llama_set_embeddings_layer_inp", None, context, ctypes.c_uint32, ctypes.c_bool)
        self.get_layer = _function("llama_get_embeddings_layer_inp", ctypes.c_void_p, context, ctypes.c_uint32)
        self.set_nextn = _function("llama_set_embeddings_nextn", None, context, ctypes.c_bool, ctypes.c_bool)
        self.get_nextn = _function("llama_get_embeddings_nextn", ctypes.c_void_p, context)


def _function(name: str, result: Any, *arguments: Any) -> Any:
    exported = library().api._lib
    for candidate in (name, *_C_NAMES[name]):
        if hasattr(exported, candidate):
            function = exported[candidate]
            function.restype, function.argtypes = result, arguments
            return function
    raise HiddenStatesMissing(
        f"This build of llama.cpp has no {name}, which trained heads draft from; the text is the same without one."
    )


@cache
def hidden_functions() -> _Functions:
    """The functions, looked up once. Raises HiddenStatesMissing."""
    return _Functions()


@cache
def nextn_selector() -> Any:
    """The function (context, i) that lets a context's next passes be those of NextN layer i, counted from 0.

    llama.cpp aborts the next pass of a layer that isn't there. Raises HiddenStatesMissing.
    """
    context = library().api.llama_context_p_ctypes
    return _function("llama_set_nextn_layer_offset", None, context, ctypes.c_int32)


def can_tap(architecture: str) -> bool:
    """Whether the inputs of layers can be read from models of this architecture."""
    return architecture in TAPPED_ARCHITECTURES


class HiddenRows:
    """Which hidden states a context hands out, and the rows of its latest pass.

    `layer_inputs`: layer i's input is the output of layer i − 1. `nextn`: the rows that a NextN head takes, one for
    every token of a pass. Raises HiddenStatesMissing for what the model can't hand out: llama.cpp would abort.
    """

    def __init__(
        self, handle: Any, *, architecture: str, n_layer: int, width: int, layer_inputs: tuple[int, ...], nextn: bool
    ) -> None:
        if layer_inputs and not can_tap(architecture):
            raise HiddenStatesMissing(
                f"llama.cpp can't read the layers of models of architecture {architecture!r}, so no EAGLE head can "
                "draft for them; the text is the same without one."
            )
        if any(not 0 <= layer < n_layer for layer in layer_inputs):
            raise HiddenStatesMissing(
                f"A head asks for the inputs of layers {', '.join(map(str, layer_inputs))} of a model with {n_layer} "
                "layers, counted from 0, so it was made for another model; the text is the same without it."
            )
        self._handle = handle
        self._width = width
        self._functions = hidden_functions()
        self._rows = 0
        self._kept: list[int] | None = None
        self._views: dict[tuple[int, int], States] = {}
        self.layers = frozenset(layer_inputs)
        self.nextn = nextn
        for layer in self.layers:
            self._functions.set_layer(handle, layer, True)
        if nextn:
            # Unmasked: a row for every token, whether or not its logits are wanted.
            self._functions.set_nextn(handle, True, False)

    def passed(self, rows: int) -> None:
        """A pass over `rows` tokens succeeded; 0: nothing can be read any more."""
        self._rows = rows
        self._kept = None

    def keep(self, rows: Sequence[int]) -> None:
        """Of the latest pass, one over a tree, only `rows` count from now on, in this order."""
        self._kept = list(rows)

    def layer_input(self, layer: int) -> States:
        """The input of `layer` [tokens of the latest pass, width], in C memory: valid until the next pass.

        Raises LlamaError for a layer that is not handed out, or before the first pass.
        """
        if layer not in self.layers or not self._rows:
            raise LlamaError(f"The input of layer {layer} was not asked for, or no pass has been made.")
        return self._view(self._functions.get_layer(self._handle, layer))

    def nextn_rows(self) -> States:
        """What a NextN head takes [tokens of the latest pass, width], in C memory: valid until the next pass.

        Raises LlamaError where it is not handed out, or before the first pass.
        """
        if not self.nextn or not self._rows:
            raise LlamaError("Rows for a NextN head were not asked for, or no pass has been made.")
        return self._view(self._functions.get_nextn(self._handle))

    def _view(self, address: int | None) -> States:
        """The view at `address`: the output buffer seldom moves, and to lay a view costs more than to look it up."""
        view = self._views.get((address or 0, self._rows))
        if view is None:
            if len(self._views) >= _MOST_VIEWS:
                self._views.clear()
            view = self._views[address or 0, self._rows] = rows_at(address, self._rows, self._width)
        return view if self._kept is None else view[self._kept]


def rows_at(address: int | None, rows: int, width: int) -> States:
    """A view [rows, width] of float32 in C memory. Raises DecodeFailed for a null pointer."""
    if not address:
        raise DecodeFailed("llama.cpp handed out no hidden states.")
    raw = (ctypes.c_float * (rows * width)).from_address(address)
    return np.frombuffer(memoryview(raw).cast("B"), dtype=np.float32).reshape(rows, width)
