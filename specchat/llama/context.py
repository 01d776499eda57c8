"""A context: the KV cache of one sequence and the forward passes over it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from specchat.llama.batch import Batch
from specchat.llama.context_params import ContextParams, FlashAttention, KVType
from specchat.llama.errors import ContextFull, DecodeFailed, DoesNotFit, LlamaError, PrefillCancelled
from specchat.llama.library import library
from specchat.llama.model import Model
from specchat.llama.taps import LayerTap
from specchat.llama.tree import TreeRows, can_branch

Logits = NDArray[np.float32]

_ABORTED = 2


class Context:
    """One sequence of tokens in a KV cache.

    `tokens` are exactly the ones whose keys and values are complete in the cache; `decode` appends, `truncate`
    takes away. Logits are views into C memory, shape [rows, vocabulary], valid until the next pass.
    """

    def __init__(self, model: Model, params: ContextParams) -> None:
        if params.n_seq_max > 1 and not can_branch(model):
            raise LlamaError(f"{model.name} has a running state or a sliding window; it can't read trees of drafts.")
        self._api = library().api
        self.model = model
        self.params = params
        self.tokens: list[int] = []
        self.tap = LayerTap() if params.layer_tap else None
        self.handle = self._create(self._native_params())
        self._memory = self._api.llama_get_memory(self.handle)
        self.n_ctx: int = min(params.n_ctx, self._api.llama_n_ctx(self.handle))
        self.n_batch: int = self._api.llama_n_batch(self.handle)
        self._batch = Batch(self.n_batch, params.n_seq_max)
        self._trees: TreeRows | None = None
        if params.n_seq_max > 1:
            self._trees = TreeRows(self._memory, params.n_seq_max, min(self.n_batch, params.n_outputs_max))
        # All sequences hold the same text; −1 takes from every one in a single walk over the cells.
        self._sequence = 0 if params.n_seq_max == 1 else -1
        self._all_rows: Logits = np.empty((0, model.vocab.size), dtype=np.float32)
        self._rows_address: int | None = None
        self._logits_address = library().address_of_logits
        if not self._memory:
            self.close()
            raise LlamaError(f"{model.name} keeps no memory of past tokens and can't write text.")

    def _native_params(self) -> Any:
        params, native = self.params, self._api.llama_context_default_params()
        native.n_ctx = params.n_ctx
        native.n_batch = min(params.n_batch, params.n_ctx)
        native.n_ubatch = min(params.n_ubatch, native.n_batch)
        native.n_seq_max = params.n_seq_max
        native.kv_unified = params.n_seq_max > 1
        native.n_rs_seq = params.n_rs_seq
        native.n_outputs_max = params.n_outputs_max
        native.n_threads = native.n_threads_batch = params.threads
        native.type_k = native.type_v = int(params.kv_type)
        native.flash_attn_type = int(self._flash_attention())
        # The full window costs several times the memory; `can_keep` knows what a sliding window has lost.
        native.swa_full = False
        native.no_perf = True
        if self.tap is not None:
            native.cb_eval = self.tap.callback
        return native

    def _flash_attention(self) -> FlashAttention:
        if self.params.kv_type is not KVType.F16:
            return FlashAttention.ON
        if self.params.flash_attention is not None:
            return self.params.flash_attention
        return FlashAttention.AUTO if library().offloads else FlashAttention.OFF

    def _create(self, native: Any) -> Any:
        log = library().log
        log.forget()
        handle = self._api.llama_init_from_model(self.model.handle, native)
        if not handle:
            raise self._refusal(log.last_complaint())
        return handle

    def _refusal(self, complaint: str) -> LlamaError:
        reason = f" llama.cpp says: {complaint}." if complaint else ""
        if self.params.kv_type is not KVType.F16 and "cache type" in complaint:
            return LlamaError(f"{self.model.name} can't have a quantised KV cache.{reason} Use --kv f16.")
        return DoesNotFit(
            f"A context of {self.params.n_ctx:,} tokens for {self.model.name} could not be made.{reason} "
            "Try a smaller --ctx."
        )

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> Logits:
        """One forward pass over `tokens`, appended to the sequence; logits of the last `outputs` rows (default all).

        Shape [outputs, vocabulary]. Raises ContextFull or DecodeFailed, with the context as it was before.
        """
        n = len(tokens)
        rows = n if outputs is None else outputs
        self._check(tokens, rows)
        self._batch.fill(tokens, len(self.tokens), rows)
        status = self._api.llama_decode(self.handle, self._batch.struct)
        if status != 0:
            self._recover(status)
        self.tokens.extend(tokens)
        if self.tap is not None:
            self.tap.reraise()
        return self._logits(rows)

    def decode_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> Logits:
        """One forward pass over a tree of continuations; logits of all rows, shape [len(tokens), vocabulary].

        Row i follows row `parents[i]`, −1 the held tokens; parents come first. `tokens` of the context stay as they
        are until `keep_path` says which rows belong to them. Raises LlamaError for what is no tree or has more than
        `n_seq_max` leaves, ContextFull and DecodeFailed, with the context as it was before.
        """
        self._check(tokens, len(tokens))
        if self._trees is None:
            raise LlamaError("This context reads no trees: it was made for chains (n_seq_max 1).")
        self._trees.fill(tokens, parents, len(self.tokens))
        status = self._api.llama_decode(self.handle, self._trees.struct)
        if status != 0:
            self._trees.forget()
            self._recover(status)
        if self.tap is not None:
            self.tap.reraise()
        return self._logits(len(tokens))

    def keep_path(self, path: Sequence[int]) -> bool:
        """Append the rows `path` of the last `decode_tree`, a root and then a child each, and drop all other rows.

        An empty path drops all. Raises LlamaError for what is no path of that tree. True: a cache that reads trees
        can always take rows back.
        """
        if self._trees is not None and (path or self._trees.pending):
            self.tokens.extend(self._trees.keep(path, len(self.tokens)))
        elif path:
            raise LlamaError("No tree was read, so no path of one can be kept.")
        return True

    def _check(self, tokens: Sequence[int], rows: int) -> None:
        if self._trees is not None:
            self.keep_path(())
        n = len(tokens)
        if not 1 <= n <= self.n_batch:
            raise LlamaError(f"A pass takes 1 to {self.n_batch} tokens, not {n}.")
        if not 0 <= rows <= min(n, self.params.n_outputs_max):
            raise LlamaError(f"{rows} rows of logits were asked for, of at most {self.params.n_outputs_max}.")
        if len(self.tokens) + n > self.n_ctx:
            raise ContextFull(f"The context of {self.n_ctx:,} tokens is full.")
        if min(tokens) < 0 or max(tokens) >= self.model.vocab.size:
            raise LlamaError("A token id lies outside the model's vocabulary.")

    def _logits(self, rows: int) -> Logits:
        if rows == 0:
            return self._all_rows[:0]
        # This call waits for the device: without it a GPU would still be computing.
        address = self._logits_address(self.handle)
        if address != self._rows_address:
            self._map_rows(address)
        return self._all_rows[:rows]

    def _map_rows(self, address: int | None) -> None:
        """Lay the view over llama.cpp's output buffer, which seldom moves: building it costs more than a slice."""
        if address is None:
            raise DecodeFailed("llama.cpp computed no logits.")
        shape = (self.params.n_outputs_max, self.model.vocab.size)
        raw = (ctypes.c_float * (shape[0] * shape[1])).from_address(address)
        self._all_rows = np.frombuffer(memoryview(raw).cast("B"), dtype=np.float32).reshape(shape)
        self._rows_address = address

    def _recover(self, status: int) -> None:
        """Bring the cache back to `tokens` after a pass that failed (it may have left some micro-batches)."""
        self._api.llama_memory_seq_rm(self._memory, self._sequence, len(self.tokens), -1)
        if status == _ABORTED:
            raise PrefillCancelled("Stopped.")
        if status == 1:
            raise ContextFull(f"The context of {self.n_ctx:,} tokens is full.")
        raise DecodeFailed(f"llama.cpp could not compute the next tokens (status {status}). See its log.")

    def prefill(
        self,
        tokens: Sequence[int],
        *,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> None:
        """Read `tokens` into the cache in chunks, without logits; `progress` hears how many are read.

        Raises PrefillCancelled, with the whole chunks kept, once `cancelled()` says so: between chunks everywhere,
        within one on a CPU.
        """
        chunk = min(self.n_batch, self.params.n_ubatch)
        with _Abortable(self._api, self.handle, cancelled):
            for start in range(0, len(tokens), chunk):
                if cancelled():
                    raise PrefillCancelled("Stopped.")
                self.decode(tokens[start : start + chunk], outputs=0)
                progress(min(start + chunk, len(tokens)))

    def truncate(self, length: int) -> bool:
        """Forget everything from position `length` on; False where the model's memory can't roll back."""
        if self._trees is not None:
            self.keep_path(())
        if length >= len(self.tokens):
            return True
        if not self._api.llama_memory_seq_rm(self._memory, self._sequence, length, -1):
            return False
        del self.tokens[length:]
        return True

    def clear(self) -> None:
        """Forget everything."""
        self._api.llama_memory_clear(self._memory, False)
        if self._trees is not None:
            self._trees.forget()
        self.tokens.clear()

    def can_keep(self, length: int) -> bool:
        """Whether the first `length` tokens can be continued from: a sliding window may have dropped their cells."""
        if self.model.n_swa <= 0 or length == 0:
            return True
        oldest = int(self._api.llama_memory_seq_pos_min(self._memory, 0))
        return oldest <= max(0, length - self.model.n_swa)

    def rolls_back(self) -> bool:
        """Whether the memory can forget its latest tokens: a KV cache always can, a running state is tried."""
        if not self.model.recurrent:
            return True
        self.decode([0, 0], outputs=0)
        able = self.truncate(1)
        self.clear()
        return able

    def close(self) -> None:
        """Free the cache and buffers."""
        if self.handle:
            self._api.llama_free(self.handle)
            self.handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Abortable:
    """Lets a running pass be cancelled (CPU only) while it is installed.

    llama.cpp asks before every node of the graph, about a thousand Python calls a pass: worth it for a prefill of
    seconds, not for a step of milliseconds.
    """

    def __init__(self, api: Any, handle: Any, cancelled: Callable[[], bool]) -> None:
        self._api = api
        self._handle = handle
        self._callback = api.ggml_abort_callback(lambda _data: cancelled())

    def __enter__(self) -> None:
        self._api.llama_set_abort_callback(self._handle, self._callback, None)

    def __exit__(self, *_: object) -> None:
        self._api.llama_set_abort_callback(self._handle, self._api.ggml_abort_callback(0), None)
