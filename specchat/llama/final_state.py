"""A context that keeps the target's final states of its latest pass, for heads that draft from them.

llama.cpp hands them out where embeddings are asked for, and then computes every row as an output. So they are asked
for only in passes whose rows all are: a step of decoding costs what it did, and a prefill has none.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from specchat.llama.context import Context, Logits
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.llama.hidden import States, rows_at
from specchat.llama.model import Model

_NO_STATES: Final = np.empty((0, 0), dtype=np.float32)


class FinalStateContext(Context):
    """A context whose last token's state can be read after a decoding step.

    Raises what `Context` raises, and LlamaError for a model whose states are not as wide as its layers.
    """

    def __init__(self, model: Model, params: ContextParams) -> None:
        super().__init__(model, params)
        self._states: States = _NO_STATES
        self._of_tree: States = _NO_STATES
        self._first = 0
        api: Any = self._api
        self._address = api._lib["llama_get_embeddings"]
        self._address.argtypes = [api.llama_context_p_ctypes]
        self._address.restype = ctypes.c_void_p
        if api.llama_model_n_embd_out(model.handle) != model.n_embd:
            self.close()
            raise LlamaError(f"{model.name} turns its states into something else at its end, so heads can't read them.")

    def final_state(self) -> States | None:
        """The state [width] after the final norm at the last token held, which the token after it was chosen from.

        None where the latest pass did not read that token, or kept no states.
        """
        row = len(self.tokens) - 1 - self._first
        return self._states[row] if 0 <= row < len(self._states) else None

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> Logits:
        """As `Context.decode`; where every row is asked for, their states are kept."""
        kept = outputs is None or outputs == len(tokens)
        first, self._states = len(self.tokens), _NO_STATES
        self._api.llama_set_embeddings(self.handle, kept)
        try:
            logits = super().decode(tokens, outputs=outputs)
        finally:
            # Whoever passes without a word to this context must not find every row an output.
            self._api.llama_set_embeddings(self.handle, False)
        if kept:
            self._first, self._states = first, self._read(len(tokens))
        return logits

    def decode_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> Logits:
        """As `Context.decode_tree`; the states of the path that is kept are."""
        self._states = self._of_tree = _NO_STATES
        self._api.llama_set_embeddings(self.handle, True)
        try:
            logits = super().decode_tree(tokens, parents)
        finally:
            self._api.llama_set_embeddings(self.handle, False)
        self._of_tree = self._read(len(tokens))
        return logits

    def keep_path(self, path: Sequence[int]) -> bool:
        """As `Context.keep_path`."""
        first = len(self.tokens)
        kept = super().keep_path(path)
        if path and len(self._of_tree):
            self._first, self._states = first, self._of_tree[list(path)]
        self._of_tree = _NO_STATES
        return kept

    def _read(self, rows: int) -> States:
        address = self._address(self.handle)
        return _NO_STATES if address is None else rows_at(address, rows, self.model.n_embd).copy()
