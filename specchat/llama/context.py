"""A context: the KV cache of one sequence and the forward passes over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from specchat.llama.abortable import Abortable
from specchat.llama.batch import Batch
from specchat.llama.context_params import ContextParams, KVType
from specchat.llama.errors import ContextFull, DecodeFailed, DoesNotFit, LlamaError, PrefillCancelled
from specchat.llama.hidden import HiddenRows, States
from specchat.llama.library import library
from specchat.llama.model import Model
from specchat.llama.output_rows import Logits, OutputRows
from specchat.llama.taps import LayerTap
from specchat.llama.tree import TreeRows, can_branch

__all__ = ["Context", "Logits", "Observer"]

Observer = Callable[[int, Sequence[int]], None]
"""Told of a pass over a chain, or of the path that stays of a tree: the position of its first token, its tokens."""

_ABORTED = 2


def _refusal(model: Model, params: ContextParams, complaint: str) -> LlamaError:
    reason = f" llama.cpp says: {complaint}." if complaint else ""
    if params.kv_type is not KVType.F16 and "cache type" in complaint:
        return LlamaError(
            f"{model.name} can't have a quantised KV cache.{reason} Use --kv f16, for a draft --draft-kv f16."
        )
    return DoesNotFit(
        f"A context of {params.n_ctx:,} tokens for {model.name} could not be made.{reason} Try a smaller --ctx."
    )


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
        self._n_ubatch: int = self._api.llama_n_ubatch(self.handle)
        self._pass_start = 0
        self._has_running_state = model.recurrent
        # Architectures that can't keep snapshots are given none, without a word.
        self._snapshots: int = self._api.llama_n_rs_seq(self.handle)
        self._batch = Batch(self.n_batch, params.n_seq_max)
        self._observers: list[Observer] = []
        self._hidden = self._open_hidden_rows()
        self._trees: TreeRows | None = None
        if params.n_seq_max > 1:
            self._trees = TreeRows(self._memory, params.n_seq_max, min(self.n_batch, params.n_outputs_max))
        # All sequences hold the same text; −1 takes from every one in a single walk over the cells.
        self._sequence = 0 if params.n_seq_max == 1 else -1
        self._rows = OutputRows(self.handle, params.n_outputs_max, model.vocab.size)
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
        native.flash_attn_type = int(params.kernel(offloads=library().offloads))
        # The full window costs several times the memory; `can_keep` knows what a sliding window has lost.
        native.swa_full = False
        native.no_perf = True
        if self.tap is not None:
            native.cb_eval = self.tap.callback
        return native

    def _create(self, native: Any) -> Any:
        log = library().log
        log.forget()
        handle = self._api.llama_init_from_model(self.model.handle, native)
        if not handle:
            raise _refusal(self.model, self.params, log.last_complaint())
        return handle

    def _open_hidden_rows(self) -> HiddenRows | None:
        params, model = self.params, self.model
        if not params.layer_inputs and not params.nextn:
            return None
        try:
            return HiddenRows(
                self.handle,
                architecture=model.header.architecture,
                n_layer=model.n_layer,
                width=self._state_width(),
                layer_inputs=params.layer_inputs,
                nextn=params.nextn,
            )
        except LlamaError:
            self.close()
            raise

    def _state_width(self) -> int:
        """Numbers in a hidden state that is handed out."""
        return self.model.n_embd

    def watch(self, observer: Observer) -> None:
        """Tell `observer` of every pass over a chain, each piece of a prefill included, while its rows can be read.

        It hears the first position and the tokens, must not raise and must not pass or truncate here. Of a tree it
        hears the path that is kept. It is not told what is truncated: a position told again replaces it and all after.
        """
        self._observers.append(observer)

    def layer_input(self, layer: int) -> States:
        """The input of `layer` [tokens, width] in the latest pass, a view that is valid until the next.

        `layer` is one of `layer_inputs`. Raises LlamaError.
        """
        return self._hidden_rows().layer_input(layer)

    def nextn_rows(self) -> States:
        """What a NextN head takes of the latest pass [tokens, width], a view that is valid until the next.

        Raises LlamaError.
        """
        return self._hidden_rows().nextn_rows()

    def _hidden_rows(self) -> HiddenRows:
        if self._hidden is None:
            raise LlamaError("This context was made without hidden states to read.")
        return self._hidden

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> Logits:
        """One forward pass over `tokens`, appended to the sequence; logits of the last `outputs` rows (default all).

        Shape [outputs, vocabulary]. Raises ContextFull or DecodeFailed, with the context as it was before, or empty
        where the model keeps a running state.
        """
        n = len(tokens)
        rows = n if outputs is None else outputs
        self._check(tokens, rows)
        self._batch.fill(tokens, len(self.tokens), rows)
        status = self._api.llama_decode(self.handle, self._batch.struct)
        if status != 0:
            self._recover(status)
        # Only states behind the tokens of the last micro-batch are kept to go back to.
        self._pass_start = len(self.tokens) + (n - 1) // self._n_ubatch * self._n_ubatch
        self.tokens.extend(tokens)
        if self.tap is not None:
            self.tap.reraise()
        if self._hidden is not None:
            self._hidden.passed(n)
        for observer in self._observers:
            observer(len(self.tokens) - n, tokens)
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
        if self._hidden is not None:
            self._hidden.passed(len(tokens))
        return self._logits(len(tokens))

    def keep_path(self, path: Sequence[int]) -> bool:
        """Append the rows `path` of the last `decode_tree`, a root and then a child each, and drop all other rows.

        An empty path drops all. Raises LlamaError for what is no path of that tree. True: a cache that reads trees
        can always take rows back.
        """
        if self._trees is not None and (path or self._trees.pending):
            first, kept = len(self.tokens), self._trees.keep(path, len(self.tokens))
            self.tokens.extend(kept)
            self._tell_of_path(path, first, kept)
        elif path:
            raise LlamaError("No tree was read, so no path of one can be kept.")
        return True

    def _tell_of_path(self, path: Sequence[int], first: int, kept: Sequence[int]) -> None:
        """What was kept of a tree is like a pass over a chain for those who read the target's states."""
        if self._hidden is not None:
            self._hidden.keep(path)
        for observer in self._observers if kept else ():
            observer(first, kept)

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
        return self._rows.first(rows)

    def _recover(self, status: int) -> None:
        """Bring the cache back to `tokens` after a pass that failed (it may have left some micro-batches)."""
        if self._has_running_state:
            # Whether it went on from the state that the pass began with is not known.
            self.clear()
        else:
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
        with Abortable(self._api, self.handle, cancelled):
            for start in range(0, len(tokens), chunk):
                if cancelled():
                    raise PrefillCancelled("Stopped.")
                self.decode(tokens[start : start + chunk], outputs=0)
                progress(min(start + chunk, len(tokens)))

    def truncate(self, length: int) -> bool:
        """Forget everything from position `length` on; False where the model's memory can't roll back.

        A running state goes back within its latest pass only, to no further than behind that pass's first token, and
        only once. Past that llama.cpp says yes as well, and goes on from the state of another text.
        """
        if self._trees is not None:
            self.keep_path(())
        if length >= len(self.tokens):
            return True
        if self._has_running_state and length <= self._pass_start:
            return False
        if not self._api.llama_memory_seq_rm(self._memory, self._sequence, length, -1):
            return False
        del self.tokens[length:]
        self._pass_start = length
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

    @property
    def most_taken_back(self) -> int:
        """Tokens that can be taken back after a pass: any number of a KV cache, of a running state its snapshots."""
        return self._snapshots if self._has_running_state else self.n_ctx

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
