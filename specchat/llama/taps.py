"""Hidden states from inside a pass, and passes that stop early, through ggml's evaluation callback.

The scheduler asks the callback before each node of the graph whether its data is wanted, and hands the node over once
it is computed; the answer False then ends that part of the graph. Layer E's output is the node `l_out-{E-1}`.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from specchat.llama.batch import Batch
from specchat.llama.errors import DecodeFailed, LlamaError
from specchat.llama.ggml_exports import ggml_function
from specchat.llama.library import library

if TYPE_CHECKING:
    from specchat.llama.context import Context

States = NDArray[np.float32]

_function = functools.partial(ggml_function, without="Without it layers can't be read. Use another --method.")
_ALL_SEQUENCES = -1
_NEVER: Final = frozenset[int]().__contains__

FINAL_STATE: Final = b"result_norm"
"""The node that the output matrix reads: the last layer's output after the final norm."""


class TapMissing(LlamaError):
    """A graph without the nodes that were to be read; the message says which."""


def layer_output(layer: int) -> bytes:
    """The name of the node that holds the residual stream after the first `layer` layers."""
    return f"l_out-{layer - 1}".encode()


class _Ggml:
    """The three functions of ggml that read a node; llama-cpp-python binds none of them."""

    def __init__(self) -> None:
        self.name = _function("ggml_get_name", ctypes.c_char_p, ctypes.c_void_p)
        self.n_bytes = _function("ggml_nbytes", ctypes.c_size_t, ctypes.c_void_p)
        self.read = _function(
            "ggml_backend_tensor_get", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
        )


@cache
def _ggml() -> _Ggml:
    return _Ggml()


class _Watch:
    """The nodes wanted of one pass, in graph order, and what was read of them."""

    def __init__(self, names: Sequence[bytes], shape: tuple[int, int]) -> None:
        self._ggml = _ggml()
        self._names = names
        self._shape = shape
        self._handed_over = False
        self.found: list[int] = []
        """Their addresses, as far as they came by."""
        self.states: list[States] = []

    @property
    def complete(self) -> bool:
        return len(self.states) == len(self._names)

    def answer(self, tensor: int) -> bool:
        """Answer one call: whether the node is wanted, or after a yes, whether to go on behind it."""
        if self._handed_over:
            self._handed_over = False
            return self.take(tensor)
        self._handed_over = self.wants(tensor)
        return self._handed_over

    def wants(self, tensor: int) -> bool:
        """Whether the node must be handed over."""
        i = len(self.found)
        if i == len(self._names):
            # All is read, but each further split of the graph (one a device) must be ended too: on its first node.
            return True
        if self._ggml.name(tensor) != self._names[i]:
            return False
        self.found.append(tensor)
        return True

    def take(self, tensor: int) -> bool:
        """Copy the node's rows; False ends the pass."""
        if not self.complete:
            states = np.empty(self._shape, dtype=np.float32)
            if self._ggml.n_bytes(tensor) != states.nbytes:
                raise TapMissing("A layer's output has another shape than expected. Use another --method.")
            self._ggml.read(tensor, states.ctypes.data, 0, states.nbytes)
            self.states.append(states)
        return not self.complete


class _Found:
    """What a look-up of a node's address finds where the node is wanted; its truth is the answer to the call.

    Some 500 nodes go by before the one that is wanted, and a look-up that finds nothing runs no Python code.
    """

    def __init__(self, tensor: int, answer: Callable[[int], bool]) -> None:
        self._tensor = tensor
        self._answer = answer

    def __bool__(self) -> bool:
        return self._answer(self._tensor)


# The callback's first argument; the conventions of C let it ignore the others, and each would cost a conversion.
_Callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p)


class LayerTap:
    """The evaluation callback of one context, which asks about a thousand times a pass.

    It can't be switched off again, so it is given only to a context that needs it. While nothing is watched, the
    answer comes from a membership test in an empty set, which runs no Python code. The context keeps the tap alive as
    long as C may call.
    """

    def __init__(self) -> None:
        self._watch: _Watch | None = None
        self._error: BaseException | None = None
        self._addresses: dict[tuple[tuple[bytes, ...], int, int], list[int]] = {}
        self._answer: Any = functools.partial(_NEVER)
        self._closure = _Callback(self._answer)
        self.callback = ctypes.cast(self._closure, library().api.ggml_backend_sched_eval_callback)

    def _answer_with(self, function: Callable[[int], object]) -> None:
        # What C calls is fixed; the function inside the partial object is not.
        self._answer.__setstate__((function, (), {}, None))

    def _on_node(self, tensor: int) -> bool:
        try:
            return self._watch is not None and self._watch.answer(tensor)
        except BaseException as error:
            # ctypes would print it and go on; so would Ctrl-C be lost.
            self._error = error
            return False

    def _on_known_node(self, tensor: int) -> bool:
        going_on = self._on_node(tensor)
        if self._watch is None or self._watch.complete:
            # The nodes of further splits have other addresses.
            self._answer_with(self._on_node)
        return going_on

    def reraise(self) -> None:
        """Raise what was raised inside the callback, to be called after every pass."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def watch(self, names: tuple[bytes, ...], rows: int, outputs: int, width: int) -> _Watch:
        """Read the nodes `names` [rows, width] of the next pass, which ends after the last of them.

        A graph of the same shape is built at the same place, so its nodes are known by their addresses.
        """
        self._watch = _Watch(names, (rows, width))
        known = self._addresses.get((names, rows, outputs))
        if known is None:
            self._answer_with(self._on_node)
        else:
            self._answer_with({tensor: _Found(tensor, self._on_known_node) for tensor in known}.get)
        return self._watch

    def unwatch(self, names: tuple[bytes, ...], rows: int, outputs: int) -> None:
        """Let passes run whole again, remembering where the nodes were found in a graph of this shape."""
        self._answer_with(_NEVER)
        watch, self._watch = self._watch, None
        if watch is not None and watch.complete:
            self._addresses[names, rows, outputs] = watch.found
        else:
            self._addresses.pop((names, rows, outputs), None)


class PartialPasses:
    """Passes over tokens past those that `context` holds, through its first layers only.

    They leave keys and values of those layers in the context's own cache, and stale ones above. Leaving the `with`
    block forgets them all: the context's `tokens` are at every moment the ones it holds completely.

        with passes:
            states = passes.run([token], exit_layer)
    """

    def __init__(self, context: Context) -> None:
        if context.tap is None:
            raise LlamaError("This context was made without a layer tap.")
        self._context = context
        self._tap: LayerTap = context.tap
        self._api = library().api
        self._batch = Batch(context.n_batch, context.params.n_seq_max)
        self._ahead = 0

    def __enter__(self) -> Self:
        self._context.truncate(len(self._context.tokens))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rewind()

    def rewind(self) -> None:
        """Forget what was read here."""
        if self._ahead:
            self._forget_from(len(self._context.tokens))
            self._ahead = 0

    def _forget_from(self, position: int) -> None:
        memory = self._api.llama_get_memory(self._context.handle)
        if not self._api.llama_memory_seq_rm(memory, _ALL_SEQUENCES, position, -1):
            raise DecodeFailed("The model's memory did not take back drafted tokens. Use --method none.")

    def run(self, tokens: Sequence[int], layer: int) -> States:
        """The residual stream [len(tokens), width] after the first `layer` layers, for `tokens` read after the last.

        Raises TapMissing where the graph has no such layer, DecodeFailed for a pass that fails.
        """
        return self.read(tokens, (layer_output(layer),))[0]

    def read(self, tokens: Sequence[int], names: tuple[bytes, ...]) -> list[States]:
        """The rows of the graph's nodes `names` (in graph order), for `tokens` read after the last.

        The pass ends after the last node; with FINAL_STATE the output matrix is not computed. Raises as `run`.
        """
        n, last = len(tokens), layer_output(self._context.model.n_layer)
        # The last layer goes on with the rows of logits only; before it, asking for none is the cheapest graph.
        outputs = n if FINAL_STATE in names or last in names else 0
        start = len(self._context.tokens) + self._ahead
        if not 1 <= n <= self._batch.capacity or start + n > self._context.n_ctx or outputs > self._rows_of_logits:
            raise LlamaError(f"{n} tokens can't be read in one pass at position {start} here.")
        self._ahead += n
        self._batch.fill(tokens, start, outputs)
        # A remembered address can be wrong where the graph lies elsewhere now: then the names are looked for.
        for _ in range(2):
            watch = self._pass(names, n, outputs)
            if watch.complete:
                return watch.states
            self._forget_from(start)
        raise TapMissing(
            f"The graph of {self._context.model.name} has no {b', '.join(names).decode()} to read, so its layers "
            "can't draft. Use another --method."
        )

    @property
    def _rows_of_logits(self) -> int:
        return self._context.params.n_outputs_max

    def _pass(self, names: tuple[bytes, ...], n: int, outputs: int) -> _Watch:
        watch = self._tap.watch(names, n, outputs, self._context.model.n_embd)
        try:
            status = self._api.llama_decode(self._context.handle, self._batch.struct)
        finally:
            self._tap.unwatch(names, n, outputs)
        self._tap.reraise()
        if status != 0:
            raise DecodeFailed(f"llama.cpp could not compute a draft (status {status}). See its log.")
        return watch
