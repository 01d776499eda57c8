"""Medusa heads: a hidden state of the target in, logits of the tokens that come after the next one out.

llama.cpp has no graph of them, so one is built here of ggml's own operations, which run where llama.cpp's do: a
product, a bias, SiLU and a sum for each residual block, and a product with the output matrix. Each head is a graph of
its own, since a short draft does not need the last ones.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from specchat.llama import medusa_file as names
from specchat.llama.errors import DecodeFailed, DoesNotFit, LlamaError
from specchat.llama.ggml import Ggml, ggml
from specchat.llama.gguf import Header, TensorPlace, read_header

_F32: Final = 0
_I64: Final = 27
_NODES: Final = 64
"""Most operations of one head's graph."""
_MOST_BLOCKS: Final = 8


class MedusaUnusable(LlamaError):
    """A file that holds no Medusa heads, damaged ones, or another target's; the message says what is wrong with it."""


class MedusaHeads:
    """Loaded heads. `n_heads` of them, for a target whose states are `width` wide and which has `n_tokens` tokens.

    Raises MedusaUnusable or ModelUnusable for a file that can't be used, DoesNotFit where its weights can't be
    allocated, LlamaError for a build of ggml without the functions needed.
    """

    def __init__(self, path: Path, *, threads: int, gpu: bool = False) -> None:
        self.path = path
        header = read_header(path)
        self._shape = MedusaShape(path.name, header)
        self.n_heads = self._shape.n_heads
        self.width = self._shape.width
        self.n_tokens = self._shape.n_tokens
        data = np.memmap(path, dtype=np.uint8, mode="r", offset=header.data_start)
        self.token_ids = self._shape.token_ids(data)
        """Which tokens the columns of `logits` stand for, [columns]; None: all, in order."""
        self._ggml = ggml()
        self._native = _Native(self._ggml, self._shape, threads, gpu=gpu)
        self.size_bytes = self._native.load(data)
        self._logits = np.empty(self._shape.columns, dtype=np.float32)

    def see(self, state: NDArray[np.float32]) -> None:
        """Take the target's final state [width], after its norm: the one its next token's logits came from."""
        self._native.see(np.ascontiguousarray(state, dtype=np.float32))

    def logits(self, head: int) -> NDArray[np.float32]:
        """Logits [columns] of the token `head` + 2 places after the state seen, valid until the next call."""
        self._native.compute(head, self._logits)
        return self._logits

    def close(self) -> None:
        """Free them."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class MedusaShape:
    """What a file's header says of its heads, checked: ggml aborts the process where shapes don't fit.

    Raises MedusaUnusable for a file without heads, or one whose tensors are missing or of another shape.
    """

    def __init__(self, file: str, header: Header) -> None:
        self._file = file
        self.tensors = header.tensors
        if header.architecture != names.ARCHITECTURE:
            raise MedusaUnusable(f"{file} holds no Medusa heads but {header.architecture or 'nothing known'}.")
        self.width, self.n_tokens, self.n_heads, self.n_blocks = (
            self._number(header, key) for key in (names.WIDTH, names.TOKENS, names.HEADS, names.BLOCKS)
        )
        if self.n_blocks > _MOST_BLOCKS:
            raise self._damaged(f"{self.n_blocks} residual blocks")
        ids = self.tensors.get(names.TOKEN_IDS)
        if ids is not None and (ids.kind != _I64 or len(ids.shape) != 1 or not ids.n_bytes):
            raise self._damaged("a vocabulary of another type")
        self.columns = self.n_tokens if ids is None else ids.shape[0]
        self.shared = names.SHARED_OUTPUT in self.tensors
        self._require_all()

    def _number(self, header: Header, key: str) -> int:
        value = header.of_architecture(key)
        if not isinstance(value, int) or value < 1:
            raise self._damaged(f"no {key}")
        return value

    def _damaged(self, what: str) -> MedusaUnusable:
        return MedusaUnusable(f"The heads in {self._file} can't be used: the file has {what}. Convert them again.")

    def _require_all(self) -> None:
        for head in range(self.n_heads):
            for block in range(self.n_blocks):
                self._require_matrix(names.block_weight(head, block), self.width)
                bias = self._place(names.block_bias(head, block))
                if bias.shape != (self.width,) or bias.kind != _F32:
                    raise self._damaged("biases of another size or type")
            self._require_matrix(self.output(head), self.columns)

    def _require_matrix(self, name: str, rows: int) -> None:
        import gguf

        place = self._place(name)
        kinds = gguf.GGMLQuantizationType
        known = place.n_bytes and place.kind not in (kinds.I8, kinds.I16, kinds.I32, kinds.I64, kinds.F64)
        if not known or place.shape != (self.width, rows) or self.width % gguf.GGML_QUANT_SIZES[kinds(place.kind)][0]:
            raise self._damaged(f"a tensor {name} of another shape or type")

    def _place(self, name: str) -> TensorPlace:
        place = self.tensors.get(name)
        if place is None:
            raise self._damaged(f"no tensor {name}")
        return place

    def output(self, head: int) -> str:
        """The name of a head's output matrix, its own or the one for all."""
        return names.SHARED_OUTPUT if self.shared else names.output(head)

    def token_ids(self, data: NDArray[np.uint8]) -> NDArray[np.int64] | None:
        """The ids that the columns stand for, from the file's data section; None for all. Raises MedusaUnusable."""
        place = self.tensors.get(names.TOKEN_IDS)
        if place is None:
            return None
        ids = np.array(data[place.offset : place.offset + place.n_bytes]).view(np.int64)
        if ids[0] < 0 or ids[-1] >= self.n_tokens or (np.diff(ids) <= 0).any():
            raise self._damaged("a vocabulary that is not ascending or not the target's")
        return ids


class _Native:
    """Weights, input and the graph of every head, in one buffer of one device."""

    def __init__(self, api: Ggml, shape: MedusaShape, threads: int, *, gpu: bool) -> None:
        self._api = api
        self._shape = shape
        self._context: Any = None
        self._buffer: Any = None
        self._backend = api.backend(threads, gpu=gpu)
        tensors = len(shape.tensors) + 1 + shape.n_heads * (4 * shape.n_blocks + 1)
        size = tensors * api.tensor_overhead() + shape.n_heads * api.graph_overhead(_NODES, False)
        self._context = api.init(api.Params(size, None, True))
        self._weights: dict[str, Any] = {}
        self._graphs: list[Any] = []
        self._results: list[Any] = []
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        api, context, shape = self._api, self._context, self._shape
        self._input = api.new_tensor_1d(context, _F32, shape.width)
        for head in range(shape.n_heads):
            state = self._input
            for block in range(shape.n_blocks):
                weight = self._weight(names.block_weight(head, block))
                inner = api.add(
                    context, api.mul_mat(context, weight, state), self._weight(names.block_bias(head, block))
                )
                state = api.add(context, state, api.silu(context, inner))
            result = api.mul_mat(context, self._weight(shape.output(head)), state)
            graph = api.new_graph(context, _NODES, False)
            api.build_forward_expand(graph, result)
            self._graphs.append(graph)
            self._results.append(result)
        self._buffer = api.alloc_ctx_tensors(context, self._backend)
        if not self._buffer:
            raise DoesNotFit("The Medusa heads do not fit in memory. Use another --method.")

    def _weight(self, name: str) -> Any:
        if name not in self._weights:
            place = self._shape.tensors[name]
            rows = place.shape[1:] or (1,)
            self._weights[name] = (
                self._api.new_tensor_1d(self._context, place.kind, place.shape[0])
                if len(place.shape) == 1
                else self._api.new_tensor_2d(self._context, place.kind, place.shape[0], *rows)
            )
        return self._weights[name]

    def load(self, data: NDArray[np.uint8]) -> int:
        """Copy the weights to the device; their bytes."""
        total = 0
        for name, tensor in self._weights.items():
            place = self._shape.tensors[name]
            held = np.ascontiguousarray(data[place.offset : place.offset + place.n_bytes])
            self._api.tensor_set(tensor, held.ctypes.data, 0, held.nbytes)
            total += held.nbytes
        return total

    def see(self, state: NDArray[np.float32]) -> None:
        self._api.tensor_set(self._input, state.ctypes.data, 0, state.nbytes)

    def compute(self, head: int, into: NDArray[np.float32]) -> None:
        status = self._api.graph_compute(self._backend, self._graphs[head])
        if status != 0:
            raise DecodeFailed(f"ggml could not compute a draft (status {status}). See its log.")
        self._api.tensor_get(self._results[head], into.ctypes.data, 0, into.nbytes)

    def close(self) -> None:
        for free, held in (
            (self._api.buffer_free, self._buffer),
            (self._api.free, self._context),
            (self._api.backend_free, self._backend),
        ):
            if held:
                free(held)
        self._buffer = self._context = self._backend = None
