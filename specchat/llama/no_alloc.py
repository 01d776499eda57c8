"""What a model and its context would allocate, from llama.cpp's own allocator, without allocating it.

A model opened so has neither weights nor words; contexts of it compute nothing and must never decode. Files cut to
their header and stretched to their size (sparse) do as well as whole ones. Three things differ from a load. States of
recurrent layers are really allocated for a moment. Where a CPU keeps weights in another order (Q4_0, some of Q4_K), a
load counts the mapped file beside them, whose pages can go once they are read. And llama.cpp *aborts the process* on
some files; so this belongs in a process of its own (`specchat.fit.probe`).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from specchat.llama.errors import LlamaError
from specchat.llama.ggml_exports import FunctionMissing
from specchat.llama.gguf import Header, read_header
from specchat.llama.gpus import computes_on_gpu, registry
from specchat.llama.library import library
from specchat.llama.model import ALL_LAYERS, Model

_LOAD_MODE_NONE: Final = 0
"""`LLAMA_LOAD_MODE_NONE`: with any mapping, `no_alloc` runs into an assertion (llama-model.cpp)."""
_INTEGER: Final = 0
_STRING: Final = 3
"""`llama_model_kv_override_type`."""
_BREAKDOWN: Final = "_Z26llama_get_memory_breakdownPK13llama_context"
_MOST_BUFFER_TYPES: Final = 1024


class BreakdownMissing(LlamaError):
    """A build whose memory breakdown can't be read; the message says why."""


class UnloadedModel(Model):
    """The model in the file at `path` without weights and vocabulary; `load_mtp` as for a Model.

    Raises ModelUnusable.
    """

    def __init__(self, path: Path, *, gpu_layers: int = ALL_LAYERS, load_mtp: bool = False) -> None:
        self.header = read_header(path)
        lib = library()
        self._api = lib.api
        self.path = path
        params = self._api.llama_model_default_params()
        params.n_gpu_layers = gpu_layers if gpu_layers >= 0 else 999
        params.no_alloc = True
        params.load_mode = _LOAD_MODE_NONE
        params.load_mtp = load_mtp
        overrides = _no_vocabulary(self.header)
        if overrides is not None:
            params.kv_overrides = overrides
        lib.log.forget()
        self.handle: Any = self._api.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise self._refusal(lib.log.last_complaint())
        self._read_properties()


def _no_vocabulary(header: Header) -> Any:
    """Overrides of the file's own words that spare reading its vocabulary; None where it has none.

    Dummy tokens, as many as there are, allocate the same; a vocabulary takes 0.1 to 0.3 s to read.
    """
    n_vocab = header.array_lengths.get("tokenizer.ggml.tokens")
    if n_vocab is None:
        return None
    overrides = (library().api.llama_model_kv_override * 3)()
    overrides[0].tag, overrides[0].key = _STRING, b"tokenizer.ggml.model"
    overrides[0].value.val_str = b"no_vocab"
    overrides[1].tag, overrides[1].key = _INTEGER, f"{header.architecture}.vocab_size".encode()
    overrides[1].value.val_i64 = n_vocab
    return overrides


@dataclass(frozen=True, slots=True)
class BufferBytes:
    """What one kind of buffer holds, in bytes."""

    on_gpu: bool
    weights: int
    cache: int
    compute: int


class _Node(ctypes.Structure):
    """A node of libstdc++'s red-black tree, `std::_Rb_tree_node`, with the value of this map."""


_Node._fields_ = [
    ("colour", ctypes.c_int),
    ("parent", ctypes.POINTER(_Node)),
    ("left", ctypes.POINTER(_Node)),
    ("right", ctypes.POINTER(_Node)),
    ("buffer_type", ctypes.c_void_p),
    ("weights", ctypes.c_size_t),
    ("cache", ctypes.c_size_t),
    ("compute", ctypes.c_size_t),
]


class _Map(ctypes.Structure):
    """libstdc++'s `std::map`: an empty comparison, then the head of the tree with its root, ends and size."""

    _fields_ = [
        ("comparison", ctypes.c_void_p),
        ("colour", ctypes.c_int),
        ("root", ctypes.POINTER(_Node)),
        ("leftmost", ctypes.POINTER(_Node)),
        ("rightmost", ctypes.POINTER(_Node)),
        ("size", ctypes.c_size_t),
    ]


@cache
def _breakdown_function() -> Any:
    _require_known_layout()
    api = library().api
    try:
        function = ctypes.CDLL(api._lib._name)[_BREAKDOWN]
        registry()
    except (AttributeError, FunctionMissing):
        raise BreakdownMissing("This build of llama.cpp doesn't tell what it would allocate.") from None
    function.argtypes = [api.llama_context_p_ctypes]
    function.restype = _Map
    return function


def _require_known_layout() -> None:
    """The map comes back by value, so its layout must be the one above: libstdc++ on a 64-bit Linux."""
    library()
    known = sys.platform == "linux" and ctypes.sizeof(ctypes.c_void_p) == 8
    if not known or "libstdc++" not in Path("/proc/self/maps").read_text(errors="replace"):
        raise BreakdownMissing("What llama.cpp would allocate can be asked for on Linux only.")


def memory_breakdown(context: Any) -> list[BufferBytes]:
    """What the context behind this handle and its model take, by kind of buffer: allocated, or as it would be.

    Raises BreakdownMissing.
    """
    found = _breakdown_function()(context)
    if found.size > _MOST_BUFFER_TYPES:
        raise BreakdownMissing("This build of llama.cpp lays out its memory breakdown in an unknown way.")
    # The nodes stay behind: freeing them is C++'s, and a probe ends soon.
    return [_read(node) for node in _walk(found.root)] if found.size else []


def _read(node: _Node) -> BufferBytes:
    return BufferBytes(computes_on_gpu(node.buffer_type), node.weights, node.cache, node.compute)


def _walk(root: Any) -> Iterator[_Node]:
    waiting = [root]
    while waiting:
        pointer = waiting.pop()
        if pointer:
            node = pointer.contents
            yield node
            waiting += [node.left, node.right]
