"""The end of a model as a model of its own: final norm and output matrix, from hidden states to logits.

llama.cpp wants at least one layer in a file, so the head has one of zeros: what it adds to its input is 0. The file
is of architecture `llama` whatever it was cut from, has no vocabulary, and its single matrix serves as output. Rows
of a quantised matrix are independent bytes, so a head for some of the tokens is a choice of rows.
"""

from __future__ import annotations

import base64
import ctypes
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from specchat.llama.errors import DecodeFailed, DoesNotFit, LlamaError
from specchat.llama.gguf import Header, read_header
from specchat.llama.library import library
from specchat.llama.whole_file import written_whole

_TOKEN_IDS: Final = "specchat.head.token_ids"
_EPSILON: Final = "attention.layer_norm_rms_epsilon"
_HEAD_SIZE: Final = 32  # of the one attention head, and of the FFN, that are all zeros
_CHANGES_LOGITS: Final = {
    "logit_scale": "scales its logits",
    "final_logit_softcapping": "caps its logits",
}
_EXTRA_TENSORS: Final = ("output_norm.bias", "output.bias", "dense_2.weight")


class HeadNotCuttable(LlamaError):
    """A model whose end is more than an RMS norm and a matrix; the message says what."""


class OutputEnd:
    """The final norm and the output matrix of a GGUF file, mapped.

    `norm` [width] float32, `matrix` [tokens, bytes a row] of the ggml type with the number `matrix_type`. Raises
    HeadNotCuttable for an end of another build, ModelUnusable for a damaged file.
    """

    def __init__(self, source: Path) -> None:
        header = read_header(source)
        _refuse_other_ends(source.name, header)
        self.epsilon = float(header.of_architecture(_EPSILON) or 0)
        places = header.tensors
        extra = next((name for name in _EXTRA_TENSORS if name in places), None)
        if extra is not None:
            raise _refusal(source.name, f"it has a tensor {extra}")
        norm, output = places.get("output_norm.weight"), places.get("output.weight", places.get("token_embd.weight"))
        if norm is None or output is None or not output.n_bytes:
            raise _refusal(source.name, "it has no final norm and output matrix that can be read in its first file")
        data = np.memmap(source, dtype=np.uint8, mode="r", offset=header.data_start)
        self.width, self.n_tokens = output.shape
        self.norm = data[norm.offset : norm.offset + norm.n_bytes].view(np.float32)
        self.matrix = data[output.offset : output.offset + output.n_bytes].reshape(self.n_tokens, -1)
        self.matrix_type = output.kind

    def weights(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """The rows `ids` of the matrix, dequantised: [len(ids), width]."""
        import gguf

        rows = np.ascontiguousarray(self.matrix[ids])
        kind = gguf.GGMLQuantizationType(self.matrix_type)
        if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
            return rows.view(np.float32 if kind is gguf.GGMLQuantizationType.F32 else np.float16).astype(np.float32)
        return np.asarray(gguf.dequantize(rows, kind), dtype=np.float32).reshape(len(ids), self.width)


def _refuse_other_ends(name: str, header: Header) -> None:
    if not isinstance(header.of_architecture(_EPSILON), float):
        raise _refusal(name, "its final norm is no RMS norm")
    for key, why in _CHANGES_LOGITS.items():
        # Converters write a scale of 0 or 1 where there is none.
        if header.of_architecture(key) not in (None, 0.0, 1.0):
            raise _refusal(name, f"it {why}")


def _refusal(name: str, why: str) -> HeadNotCuttable:
    return HeadNotCuttable(f"{name} can't draft by early exit: {why}. Use another --method.")


def cut_head(end: OutputEnd, destination: Path, ids: Sequence[int] | NDArray[np.int64] | None = None) -> None:
    """Write the head of a model, of its tokens `ids` (ascending) or of all, to `destination`.

    The file appears whole or not at all. Raises LlamaError for ids out of range, OSError for a full disk.
    """
    chosen = np.arange(end.n_tokens) if ids is None else np.asarray(ids, dtype=np.int64)
    if not chosen.size or chosen[0] < 0 or chosen[-1] >= end.n_tokens or (np.diff(chosen) <= 0).any():
        raise LlamaError("A head's token ids must be ascending and within the vocabulary.")
    matrix = end.matrix if ids is None else np.ascontiguousarray(end.matrix[chosen])
    write_head(destination, end, matrix, end.matrix_type, end.norm, None if ids is None else chosen)


def write_head(
    destination: Path,
    end: OutputEnd,
    matrix: NDArray[np.uint8],
    matrix_type: int,
    norm: NDArray[np.float32],
    ids: NDArray[np.int64] | None,
) -> None:
    """Write a head with `matrix` [tokens, bytes a row] and `norm` [width] for `end`'s tokens `ids` (None: all).

    The file appears whole or not at all.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(destination) as unfinished:
        _write(unfinished, end, matrix, matrix_type, norm, ids)
        read_header(unfinished)


def _write(
    path: Path,
    end: OutputEnd,
    matrix: NDArray[np.uint8],
    matrix_type: int,
    norm: NDArray[np.float32],
    ids: NDArray[np.int64] | None,
) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("specchat head")
    writer.add_context_length(_HEAD_SIZE)
    writer.add_embedding_length(end.width)
    writer.add_block_count(1)
    writer.add_feed_forward_length(_HEAD_SIZE)
    writer.add_head_count(1)
    writer.add_head_count_kv(1)
    writer.add_key_length(_HEAD_SIZE)
    writer.add_value_length(_HEAD_SIZE)
    writer.add_rope_dimension_count(_HEAD_SIZE)
    writer.add_layer_norm_rms_eps(end.epsilon)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(len(matrix))
    if ids is not None:
        writer.add_string(_TOKEN_IDS, _packed(ids))
    writer.add_tensor(
        "token_embd.weight", np.ascontiguousarray(matrix), raw_dtype=gguf.GGMLQuantizationType(matrix_type)
    )
    writer.add_tensor("output_norm.weight", np.ascontiguousarray(norm))
    for tensor, shape in _zero_layer(end.width).items():
        writer.add_tensor(f"blk.0.{tensor}.weight", np.zeros(shape, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _packed(ids: NDArray[np.int64]) -> str:
    """Ascending ids as text: reading an array of a GGUF file in Python takes seconds, a string nothing."""
    return base64.b64encode(zlib.compress(np.diff(ids, prepend=0).astype("<i4").tobytes())).decode()


def _unpacked(text: str) -> NDArray[np.int64]:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<i4").cumsum(dtype=np.int64)


def _zero_layer(width: int) -> dict[str, tuple[int, ...]]:
    into, out_of = (_HEAD_SIZE, width), (width, _HEAD_SIZE)
    return {
        "attn_norm": (width,), "attn_q": into, "attn_k": into, "attn_v": into, "attn_output": out_of,
        "ffn_norm": (width,), "ffn_gate": into, "ffn_up": into, "ffn_down": out_of,
    }  # fmt: skip


class Head:
    """A loaded head: hidden states in, logits out. Raises LlamaError or DoesNotFit when it can't be loaded."""

    def __init__(self, path: Path, *, threads: int, gpu_layers: int = -1) -> None:
        packed = read_header(path).metadata.get(_TOKEN_IDS)
        self.path = path
        self.token_ids: NDArray[np.int64] | None = None if packed is None else _unpacked(str(packed))
        """Which tokens the columns of `logits` stand for; None: all, in order."""
        self._api = library().api
        self._model: Any = None
        self._context: Any = None
        try:
            self._load(path, threads, gpu_layers)
        except BaseException:
            self.close()
            raise
        self._memory = self._api.llama_get_memory(self._context)
        self._fill_batch()

    def _load(self, path: Path, threads: int, gpu_layers: int) -> None:
        api, lib = self._api, library()
        lib.log.forget()
        params = api.llama_model_default_params()
        params.n_gpu_layers = gpu_layers if gpu_layers >= 0 else 999
        self._model = api.llama_model_load_from_file(str(path).encode(), params)
        if not self._model:
            raise LlamaError(f"The head {path} can't be loaded: {lib.log.last_complaint()}. Delete it to cut it anew.")
        native = api.llama_context_default_params()
        native.n_ctx = native.n_batch = native.n_ubatch = _HEAD_SIZE
        native.n_seq_max = native.n_outputs_max = 1
        native.n_threads = native.n_threads_batch = threads
        native.flash_attn_type, native.no_perf = 0, True
        self._context = api.llama_init_from_model(self._model, native)
        if not self._context:
            raise DoesNotFit(f"The head {path.name} does not fit in memory. Use another --method.")
        self.n_tokens: int = api.llama_vocab_n_tokens(api.llama_model_get_vocab(self._model))
        self.width: int = api.llama_model_n_embd(self._model)
        self.size_bytes: int = api.llama_model_size(self._model)

    def _fill_batch(self) -> None:
        """A batch of one row at position 0, whose embedding is this object's buffer."""
        self._state = np.zeros(self.width, dtype=np.float32)
        self._ones = (ctypes.c_int32 * 1)(1)
        self._zero = (ctypes.c_int32 * 1)(0)
        self._flag = (ctypes.c_int8 * 1)(1)
        integers = ctypes.POINTER(ctypes.c_int32)
        self._sequences = (integers * 1)(ctypes.cast(self._zero, integers))
        batch = self._batch = self._api.llama_batch()
        batch.n_tokens = 1
        batch.embd = self._state.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
        batch.pos = ctypes.cast(self._zero, integers)
        batch.n_seq_id = ctypes.cast(self._ones, integers)
        batch.seq_id = ctypes.cast(self._sequences, ctypes.POINTER(integers))
        batch.logits = ctypes.cast(self._flag, ctypes.POINTER(ctypes.c_int8))

    def logits(self, state: NDArray[np.float32]) -> NDArray[np.float32]:
        """Logits [n_tokens] of one hidden state [width]; a view that is valid until the next call."""
        self._state[:] = state
        self._api.llama_memory_seq_rm(self._memory, -1, 0, -1)
        status = self._api.llama_decode(self._context, self._batch)
        address = library().address_of_logits(self._context) if status == 0 else None
        if address is None:
            raise DecodeFailed(f"llama.cpp could not compute a draft's logits (status {status}). See its log.")
        raw = (ctypes.c_float * self.n_tokens).from_address(address)
        return np.frombuffer(memoryview(raw).cast("B"), dtype=np.float32)

    def close(self) -> None:
        """Free it."""
        if self._context:
            self._api.llama_free(self._context)
        if self._model:
            self._api.llama_model_free(self._model)
        self._context = self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
