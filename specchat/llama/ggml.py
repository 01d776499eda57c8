"""The functions of ggml that build and run a small graph; llama-cpp-python binds none of them.

Tensors, graphs and buffers are opaque addresses: nothing here depends on the layout of a C struct but `ggml_init`'s
three parameters.
"""

from __future__ import annotations

import ctypes
from functools import cache, partial
from typing import Any, ClassVar, Final

from specchat.llama.errors import LlamaError
from specchat.llama.ggml_exports import ggml_function

_CPU: Final = 0
_P, _SIZE, _INT, _I64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64
_function = partial(ggml_function, without="Without it nothing can be drafted so. Use another --method.")
_SetThreads = ctypes.CFUNCTYPE(None, _P, _INT)


class _Params(ctypes.Structure):
    _fields_: ClassVar = [("mem_size", _SIZE), ("mem_buffer", _P), ("no_alloc", ctypes.c_bool)]


class Ggml:
    """ggml's functions by their names without the prefix. Raises LlamaError for a build that lacks one."""

    Params = _Params

    def __init__(self) -> None:
        self.init = _function("ggml_init", _P, _Params)
        self.free = _function("ggml_free", None, _P)
        self.tensor_overhead = _function("ggml_tensor_overhead", _SIZE)
        self.graph_overhead = _function("ggml_graph_overhead_custom", _SIZE, _SIZE, ctypes.c_bool)
        self.new_tensor_1d = _function("ggml_new_tensor_1d", _P, _P, _INT, _I64)
        self.new_tensor_2d = _function("ggml_new_tensor_2d", _P, _P, _INT, _I64, _I64)
        self.new_graph = _function("ggml_new_graph_custom", _P, _P, _SIZE, ctypes.c_bool)
        self.build_forward_expand = _function("ggml_build_forward_expand", None, _P, _P)
        self.mul_mat = _function("ggml_mul_mat", _P, _P, _P, _P)
        self.add = _function("ggml_add", _P, _P, _P, _P)
        self.silu = _function("ggml_silu", _P, _P, _P)
        self.alloc_ctx_tensors = _function("ggml_backend_alloc_ctx_tensors", _P, _P, _P)
        self.buffer_free = _function("ggml_backend_buffer_free", None, _P)
        self.tensor_set = _function("ggml_backend_tensor_set", None, _P, _P, _SIZE, _SIZE)
        self.tensor_get = _function("ggml_backend_tensor_get", None, _P, _P, _SIZE, _SIZE)
        self.graph_compute = _function("ggml_backend_graph_compute", _INT, _P, _P)
        self.backend_free = _function("ggml_backend_free", None, _P)
        self._init_best = _function("ggml_backend_init_best", _P)
        self._init_by_type = _function("ggml_backend_init_by_type", _P, _INT, ctypes.c_char_p)
        self._device = _function("ggml_backend_get_device", _P, _P)
        self._registry = _function("ggml_backend_dev_backend_reg", _P, _P)
        self._address = _function("ggml_backend_reg_get_proc_address", _P, _P, ctypes.c_char_p)

    def backend(self, threads: int, *, gpu: bool) -> Any:
        """A device to compute on: the best GPU there is, else this CPU with so many threads. Raises LlamaError."""
        backend = self._init_best() if gpu else self._init_by_type(_CPU, None)
        if not backend:
            raise LlamaError("ggml found no device to draft on. Use another --method.")
        # A GPU has no such function.
        address = self._address(self._registry(self._device(backend)), b"ggml_backend_set_n_threads")
        if address:
            _SetThreads(address)(backend, threads)
        return backend


@cache
def ggml() -> Ggml:
    """The one set of bindings of this process."""
    return Ggml()
