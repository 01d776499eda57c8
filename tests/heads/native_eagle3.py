"""An `eagle3` GGUF in llama.cpp beside its target, driven with the plainest calls there are."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.llama.context import Context
from specchat.llama.library import library

Floats = NDArray[np.float32]


class NativeHead:
    """The head's own context."""

    def __init__(self, model: Any, handle: Any, width: int, n_tokens: int) -> None:
        from llama_cpp import llama_cpp_ext

        self._api = library().api
        self._ext: Any = llama_cpp_ext
        self._model = model
        self._handle = handle
        self._width = width
        self._n_tokens = n_tokens
        self._ext.llama_set_embeddings_nextn(handle, True, True)

    def fused(self, features: Floats) -> Floats:
        """g [n, width] of the target's states [n, 3 · target width]; for positions 0… of an empty cache."""
        batch = self._batch(None, features, 0)
        assert self._api.llama_encode(self._handle, batch) == 0
        return self._rows(self._ext.llama_get_embeddings_nextn(self._handle), len(features), self._width)

    def read(self, tokens: Sequence[int], g: Floats, start: int) -> tuple[Floats, Floats]:
        """Logits [n, target's tokens] and states [n, width] of the pairs (token, g) at positions `start`…"""
        batch = self._batch(tokens, g, start)
        assert self._api.llama_decode(self._handle, batch) == 0
        logits = self._rows(self._api.llama_get_logits(self._handle), len(tokens), self._n_tokens)
        states = [
            self._rows(self._ext.llama_get_embeddings_nextn_ith(self._handle, i), 1, self._width)
            for i in range(len(tokens))
        ]
        return logits, np.concatenate(states)

    def _rows(self, pointer: Any, rows: int, width: int) -> Floats:
        return np.array(np.ctypeslib.as_array(pointer, (rows * width,))).reshape(rows, width)

    def _batch(self, tokens: Sequence[int] | None, rows: Floats, start: int) -> Any:
        n, integers = len(rows), ctypes.POINTER(ctypes.c_int32)
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        zero = (ctypes.c_int32 * 1)(0)
        kept: dict[str, Any] = {
            "token": None if tokens is None else (ctypes.c_int32 * n)(*tokens),
            "pos": (ctypes.c_int32 * n)(*range(start, start + n)),
            "n_seq_id": (ctypes.c_int32 * n)(*[1] * n),
            "seq_id": (integers * n)(*[ctypes.cast(zero, integers)] * n),
            "logits": (ctypes.c_int8 * n)(*[1] * n),
            "rows": rows,
        }
        self._kept = kept
        batch = self._api.llama_batch()
        batch.n_tokens = n
        batch.embd = rows.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        if tokens is not None:
            batch.token = ctypes.cast(kept["token"], integers)
        batch.pos, batch.n_seq_id = (ctypes.cast(kept[name], integers) for name in ("pos", "n_seq_id"))
        batch.seq_id = ctypes.cast(kept["seq_id"], ctypes.POINTER(integers))
        batch.logits = ctypes.cast(kept["logits"], ctypes.POINTER(ctypes.c_int8))
        return batch


@contextmanager
def native_head(path: Path, target: Context, width: int) -> Iterator[NativeHead]:
    """Load the head in `path` beside `target`."""
    api = library().api
    params = api.llama_model_default_params()
    params.n_gpu_layers = 0
    model = api.llama_model_load_from_file(str(path).encode(), params)
    assert model, library().log.last_complaint()
    native = api.llama_context_default_params()
    native.n_ctx = native.n_batch = native.n_ubatch = 64
    native.n_threads = native.n_threads_batch = 1
    native.flash_attn_type = 0
    native.type_k = native.type_v = 0  # 32 bits: what is left of a difference is the head's
    native.ctx_other = target.handle
    handle = api.llama_init_from_model(model, native)
    assert handle, library().log.last_complaint()
    try:
        yield NativeHead(model, handle, width, api.llama_vocab_n_tokens(api.llama_model_get_vocab(model)))
    finally:
        api.llama_free(handle)
        api.llama_model_free(model)
