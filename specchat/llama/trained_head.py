"""A trained head: one layer that reads the target's hidden states beside the tokens and guesses what follows.

EAGLE-3 (Li et al. 2503.01840) is a file of its own beside the target; NextN layers (multi-token prediction, DeepSeek-V3
2412.19437, section 2.2) lie in the target's file or in one of their own. Both read pairs (token x[t], state f[t−1]),
where f is the target's feature of the token before, or the head's own state while it drafts; the pair's logits are for
x[t+1]. An EAGLE-3 head holds the pair of x[t] at position t − 1 of its cache and begins with x[1], a NextN layer at
position t and begins with x[0] and a state of zeros.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from specchat.llama import eagle3_file
from specchat.llama.batch import StateBatch
from specchat.llama.context import Context, Logits
from specchat.llama.context_params import ContextParams, KVType
from specchat.llama.errors import ContextFull, DecodeFailed, LlamaError, ModelUnusable
from specchat.llama.gguf import Header, read_header
from specchat.llama.hidden import States, hidden_functions
from specchat.llama.model import Model

_CONTEXT_MTP: Final = 1
"""`LLAMA_CONTEXT_TYPE_MTP`."""
_MOST_ROWS: Final = 128
"""Pairs a pass, as a draft model reads: a fourth of the compute buffer of 512, at no loss of speed."""
_MOST_OUTPUTS: Final = 16
"""Rows of logits a pass, where all rows have them; also features an encoding pass, which holds room for logits."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a kind of head is fed."""

    first: int
    """The first token of a text that it reads: 1 where a pair needs the feature before it, 0 where zeros stand in."""
    every_row: bool
    """Its graph computes logits of all rows, and llama.cpp copies the first ones: all rows are asked for, or none."""
    encodes: bool
    """Features of several layers go through an encoder of the head's own before they are read."""
    context_type: int = 0
    drafts_on: bool = True
    """It hands out states of its own, from which it drafts on."""


EAGLE3_WIRING: Final = Wiring(first=1, every_row=True, encodes=True)
DFLASH_WIRING: Final = Wiring(first=1, every_row=True, encodes=False, drafts_on=False)
NEXTN_WIRING: Final = Wiring(first=0, every_row=False, encodes=False, context_type=_CONTEXT_MTP)


class HeadModel(Model):
    """The weights of a head in a file of its own, which needs no vocabulary. Raises as `Model`."""

    _may_encode = True

    def _header_of(self, path: Path) -> Header:
        header = read_header(path)
        if not header.number("block_count"):
            raise ModelUnusable(f"{path} holds no layers, so it is no trained head.")
        return header

    @property
    def draft_ids(self) -> NDArray[np.int64] | None:
        """The target's tokens that the head can draft, ascending; None: all.

        Raises ModelUnusable for what are no tokens, each once: llama.cpp writes logits to these places unseen.
        """
        place = self.header.tensors.get(eagle3_file.TOKEN_IDS)
        if place is None:
            return None
        start, size = self.header.data_start + place.offset, np.dtype(np.int64).itemsize
        if place.n_bytes != place.shape[0] * size:
            raise ModelUnusable(
                f"{self.path} names the tokens it drafts ({eagle3_file.TOKEN_IDS}) by other numbers than I64."
            )
        ids = np.sort(np.fromfile(self.path, dtype=np.int64, count=place.shape[0], offset=start))
        if ids.size and (ids[0] < 0 or ids[-1] >= self.vocab.size or (ids[1:] == ids[:-1]).any()):
            raise ModelUnusable(
                f"{self.path} drafts tokens ({eagle3_file.TOKEN_IDS}) that its target has not, or some twice."
            )
        return ids

    @property
    def mask(self) -> tuple[int, States] | None:
        """The token and state [width] that stand for what is unknown; None for a head that drafts token by token."""
        token = self.header.of_architecture(eagle3_file.MASK_TOKEN)
        if not isinstance(token, int):
            return None
        import gguf

        field = gguf.GGUFReader(self.path).fields.get(f"{self.header.architecture}.{eagle3_file.MASK_STATE}")
        state = np.zeros(0) if field is None else np.array(field.contents())
        if state.shape != (self.n_embd,):
            raise ModelUnusable(f"{self.path} has no mask state of {self.n_embd:,} numbers beside its mask token.")
        return token, state.astype(np.float32)


class HeadContext(Context):
    """A head's cache and passes. `tokens` are those it has read, from the text's token number `wiring.first` on.

    The target's context must outlive it. Raises what `Context` raises, HiddenStatesMissing for a build that hands out
    no states.
    """

    def __init__(self, model: Model, target: Context, wiring: Wiring, *, kv_type: KVType = KVType.F16) -> None:
        hidden_functions()
        self.wiring = wiring
        self._target = target
        rows = min(_MOST_ROWS, target.n_ctx)
        super().__init__(
            model,
            ContextParams(
                n_ctx=target.n_ctx,
                n_outputs_max=min(_MOST_OUTPUTS, rows) if wiring.every_row else 1,
                threads=target.params.threads,
                n_batch=rows,
                n_ubatch=rows,
                kv_type=kv_type,
                flash_attention=target.params.flash_attention if kv_type is KVType.F16 else None,
                nextn=wiring.drafts_on,
            ),
        )
        # A NextN layer is one of attention, whatever the trunk below it is made of.
        self._has_running_state = False
        self._pairs = StateBatch(self.n_batch, self._state_width())
        self.n_features = self._feature_width()
        self.draft_ids = model.draft_ids if isinstance(model, HeadModel) else None
        self._mask = model.mask if isinstance(model, HeadModel) else None
        self._features = StateBatch(self.params.n_outputs_max, self.n_features) if wiring.encodes else None

    def _native_params(self) -> Any:
        native = super()._native_params()
        native.ctx_type = self.wiring.context_type
        native.ctx_other = ctypes.cast(self._target.handle, ctypes.c_void_p)
        return native

    def _feature_width(self) -> int:
        """Numbers of the target's that a token is known by."""
        if not self.wiring.encodes:
            return self._state_width()
        header = self.model.header
        layers = header.array_of_architecture(eagle3_file.TAPPED_LAYERS) or ()
        return len(layers) * header.number(eagle3_file.TARGET_WIDTH)

    @property
    def first(self) -> int:
        """The first token of a text that the head reads."""
        return self.wiring.first

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> Logits:
        """Not possible: raises LlamaError. A head reads tokens together with states."""
        raise LlamaError("A trained head reads tokens together with states.")

    def encode(self, features: States) -> States:
        """States [n, width] from the target's features [n, n_features] of the tokens before the next ones.

        Raises LlamaError for another shape, DecodeFailed for a pass that fails.
        """
        if features.shape[1] != self.n_features:
            raise LlamaError(f"Features of {features.shape[1]} numbers can't feed a head that takes {self.n_features}.")
        if self._features is None:
            return features
        states = np.empty((len(features), self.model.n_embd), dtype=np.float32)
        for start in range(0, len(features), self._features.capacity):
            piece = features[start : start + self._features.capacity]
            # Nothing is kept of it, but it must come where the next pair will.
            self._features.fill_states(piece, len(self.tokens))
            self._passed(self._api.llama_encode(self.handle, self._features.struct), len(piece))
            states[start : start + len(piece)] = self.nextn_rows()
        return states

    def read(self, tokens: Sequence[int], states: States) -> None:
        """Read pairs of `tokens` and `states` [len(tokens), width], without logits. Raises as `draft`."""
        for start in range(0, len(tokens), self.n_batch):
            self._read(tokens[start : start + self.n_batch], states[start : start + self.n_batch], 0)

    def draft(self, tokens: Sequence[int], states: States) -> tuple[Logits, States]:
        """Read pairs; the logits [vocabulary] after the last of them, and the head's own state there [1, width].

        Logits and state are views, valid until the next pass. Tokens that the head can't draft have logits −inf.
        Raises LlamaError for ids and shapes that llama.cpp would abort on, ContextFull, DecodeFailed.
        """
        most = self.params.n_outputs_max if self.wiring.every_row else self.n_batch
        rest = max(0, len(tokens) - most)
        if rest:
            self.read(tokens[:rest], states[:rest])
        n = len(tokens) - rest
        outputs = n if self.wiring.every_row else 1
        self._read(tokens[rest:], states[rest:], outputs)
        return self._logits(outputs)[outputs - 1], self.nextn_rows()[n - 1 :]

    @property
    def most_drafted(self) -> int:
        """Tokens that it drafts after a text at most, in one pass or one after another."""
        return self.n_ctx if self.most_parallel == 1 else self.most_parallel

    @property
    def most_parallel(self) -> int:
        """Tokens that `draft_parallel` drafts at most; 1 for a head that drafts token by token."""
        return 1 if self._mask is None else self.params.n_outputs_max

    def draft_parallel(self, tokens: Sequence[int], states: States, count: int) -> Logits:
        """Read pairs and then masks; logits [count, vocabulary] of the `count` tokens after the last pair.

        One pass drafts them all (P-EAGLE: masks stand for the tokens between, and attention is causal). The masks are
        among `tokens` afterwards. `count` is at most `most_parallel`. Views and errors as those of `draft`.
        """
        if self._mask is None or not 1 <= count <= self.most_parallel:
            raise LlamaError(f"This head can't draft {count} tokens in one pass.")
        token, state = self._mask
        rest = max(0, len(tokens) + count - 1 - self.params.n_outputs_max)
        if rest:
            self.read(tokens[:rest], states[:rest])
        pairs = np.concatenate([states[rest:], np.tile(state, (count - 1, 1))])
        self._read([*tokens[rest:], *[token] * (count - 1)], pairs, len(pairs))
        return self._logits(len(pairs))[-count:]

    def _read(self, tokens: Sequence[int], states: States, outputs: int) -> None:
        self._check_pairs(tokens, states)
        self._pass(tokens, states, len(self.tokens), outputs)
        self.tokens.extend(tokens)

    def _check_pairs(self, tokens: Sequence[int], states: States) -> None:
        n, start = len(tokens), len(self.tokens)
        if not 1 <= n <= self.n_batch or states.shape != (n, self._state_width()):
            raise LlamaError(f"{n} tokens and states of shape {states.shape} make no pairs that this head can read.")
        if start + n > self.n_ctx:
            raise ContextFull(f"The head's context of {self.n_ctx:,} tokens is full.")
        if min(tokens) < 0 or max(tokens) >= self.model.vocab.size:
            raise LlamaError("A token id lies outside the head's vocabulary.")

    def _pass(self, tokens: Sequence[int], states: States, position: int, outputs: int) -> None:
        self._pairs.fill_pairs(tokens, states, position, outputs)
        self._passed(self._api.llama_decode(self.handle, self._pairs.struct), len(tokens))

    def _passed(self, status: int, rows: int) -> None:
        if self._hidden is not None:
            self._hidden.passed(rows if status == 0 else 0)
        if status != 0:
            self._forget_unread()
            raise DecodeFailed(f"llama.cpp could not compute a draft (status {status}). See its log.")

    def _forget_unread(self) -> bool:
        """Take from the cache what lies behind `tokens`, as a pass that failed may have left; False where it can't."""
        return bool(self._api.llama_memory_seq_rm(self._memory, 0, len(self.tokens), -1))


class AssistantContext(HeadContext):
    """A head without a cache of its own: it looks at the target's, and has nothing to read but the newest token.

    All that it drafts stands at the position of that token (`gemma4-assistant`).
    """

    def __init__(self, model: Model, target: Context) -> None:
        super().__init__(model, target, NEXTN_WIRING, kv_type=target.params.kv_type)

    def _state_width(self) -> int:
        # The target's: narrower inside, the head takes and gives states of that width.
        return int(self._api.llama_model_n_embd_out(self.model.handle))

    def draft(self, tokens: Sequence[int], states: States) -> tuple[Logits, States]:
        """Read the pair of a token behind those that the target holds, or of one drafted there; as in HeadContext."""
        if len(tokens) != 1 or not 0 <= tokens[0] < self.model.vocab.size or states.shape != (1, self._state_width()):
            raise LlamaError("An assistant reads one token with the state before it.")
        position = len(self._target.tokens)
        if position >= self.n_ctx:
            raise ContextFull(f"The head's context of {self.n_ctx:,} tokens is full.")
        self._pass(tokens, states, position, 1)
        return self._logits(1)[0], self.nextn_rows()

    def read(self, tokens: Sequence[int], states: States) -> None:
        """Nothing to read: the target's cache holds it."""

    def truncate(self, length: int) -> bool:
        """Nothing to forget; True."""
        return True

    def clear(self) -> None:
        """Nothing to forget: the cells are the target's."""

    def _forget_unread(self) -> bool:
        # The cells are the target's.
        return True
