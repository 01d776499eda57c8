"""Several trained NextN layers, each of which drafts one token further than the one before (`step35`).

Layer i reads the pairs of the text and then those of the i tokens drafted so far, each with the state of the layer that
drafted it; its logits are for the next token. What a layer has read is its own: keys and values lie in one cache, where
a cell has room for every layer's. So all layers read the text, and each layer that drafts reads all that is drafted
before it again. A cell that is given up and taken again still holds what other layers left there: llama.cpp's own
driver relies on it too (common/speculative.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specchat.llama.context import Context, Logits
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError
from specchat.llama.hidden import States, hidden_functions, nextn_selector
from specchat.llama.model import Model
from specchat.llama.trained_head import NEXTN_WIRING, HeadContext


class ChainedHeadsContext(HeadContext):
    """The cache and passes of NextN layers that take turns. `tokens` are those that all of them have read.

    A draft costs a pass a layer, and reading the text one more only for layers that a draft did not come to. Raises
    what `HeadContext` raises, HiddenStatesMissing for a build that can't choose the layer.
    """

    def __init__(self, model: Model, target: Context, *, kv_type: KVType = KVType.F16) -> None:
        self._select = nextn_selector()
        self._n_heads = model.header.n_nextn
        self._text = 0
        """How many of the pairs below are of the text, not drafted."""
        self._ran = 0
        """Layers that have read them."""
        self._waiting: list[int] = []
        self._states: States = np.empty((0, model.n_embd), dtype=np.float32)
        super().__init__(model, target, NEXTN_WIRING, kv_type=kv_type)
        # The graph makes states for the rows with logits alone; to ask for all of them would read past their end.
        hidden_functions().set_nextn(self.handle, True, True)

    def _native_params(self) -> object:
        native = super()._native_params()
        # A window that is kept whole can be gone back in, and keeps each position in its own cell.
        native.swa_full = True
        return native

    @property
    def most_drafted(self) -> int:
        """Tokens that it drafts at a time: one a layer."""
        return self._n_heads

    def draft(self, tokens: Sequence[int], states: States) -> tuple[Logits, States]:
        """Read pairs of the text, or after such a call the pair of the token drafted last, with the next layer.

        Logits and state as those of `HeadContext.draft`. Before anything else is read, `truncate` must say how much
        of the text stays. Raises what `HeadContext.draft` raises, LlamaError when all layers have drafted.
        """
        if not self._waiting:
            rest = max(0, len(tokens) + self._n_heads - 1 - self.n_batch)
            self.read(tokens[:rest], states[:rest])
            tokens, states = tokens[rest:], states[rest:]
        self._check_pairs(tokens, states)
        waiting, given = [*self._waiting, *tokens], np.concatenate([self._states, states])
        self._check_pairs(waiting, given)
        text = self._text or len(tokens)
        layer = len(waiting) - text
        if layer >= self._n_heads:
            raise LlamaError(f"A head of {self._n_heads} layers drafts no more tokens than that.")
        self._text, self._waiting, self._states = text, waiting, given
        self._pass_of(layer, len(waiting), outputs=1)
        self._ran = layer + 1
        return self._logits(1)[0], self.nextn_rows()

    def truncate(self, length: int) -> bool:
        """Forget all drafted tokens and what lies past `length` tokens; layers that have not drafted read the rest.

        Raises DecodeFailed where they can't.
        """
        kept = min(self._text, length - len(self.tokens))
        if kept > 0:
            for layer in range(self._ran, self._n_heads):
                self._pass_of(layer, kept, outputs=0)
            self.tokens.extend(self._waiting[:kept])
        waited = bool(self._waiting)
        self._forget_waiting()
        return super().truncate(length) and (not waited or self._forget_unread())

    def clear(self) -> None:
        """Forget everything."""
        self._forget_waiting()
        super().clear()

    def _forget_waiting(self) -> None:
        self._waiting, self._states = [], self._states[:0]
        self._text = self._ran = 0

    def _read(self, tokens: Sequence[int], states: States, outputs: int) -> None:
        self._check_pairs(tokens, states)
        self._waiting, self._states = list(tokens), states
        for layer in range(self._n_heads):
            self._pass_of(layer, len(tokens), outputs=outputs)
        self.tokens.extend(tokens)
        self._forget_waiting()

    def _pass_of(self, layer: int, rows: int, *, outputs: int) -> None:
        """Let `layer` read the first `rows` of the waiting pairs, in the cells behind `tokens`."""
        if not self._forget_unread():
            raise LlamaError("Its cache can't be gone back in.")
        self._select(self.handle, layer)
        self._pass(self._waiting[:rows], self._states[:rows], len(self.tokens), outputs)

    def _passed(self, status: int, rows: int) -> None:
        if status != 0:
            self._forget_waiting()
        super()._passed(status, rows)

    def _pass(self, tokens: Sequence[int], states: States, position: int, outputs: int) -> None:
        self._pairs.fill_pairs(tokens, states, position, outputs)
        self._passed(self._api.llama_decode(self.handle, self._pairs.struct), outputs)
