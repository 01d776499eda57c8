"""A DFlash head (2602.06036): a few layers that draft a block of tokens in one pass, looking at all of it at once.

The head's cache holds keys and values made from the target's features of each token of the text. A block is the text's
last token and a mask for each token to draft; every row attends to the cache and to the whole block, so a row's logits
depend on nothing that is drawn from another. The cache holds the feature of x[t − 1] at position t − 1, which is read
together with x[t], as an EAGLE-3 head's pairs are: it begins with x[1].
"""

from __future__ import annotations

from collections.abc import Sequence

from specchat.llama import dflash_file
from specchat.llama.batch import Batch, StateBatch
from specchat.llama.context import Context, Logits
from specchat.llama.context_params import KVType
from specchat.llama.errors import ContextFull, LlamaError
from specchat.llama.hidden import States
from specchat.llama.model import Model
from specchat.llama.trained_head import DFLASH_WIRING, HeadContext

_MROPE_POSITIONS = 4
"""Of each row without a token: llama.cpp reads so many where positions are counted in several ways."""


class DFlashContext(HeadContext):
    """A DFlash head's cache and passes. `tokens` are those behind the features that it has read, from x[1] on.

    Raises what `HeadContext` raises, LlamaError for a file that names no mask.
    """

    def __init__(self, model: Model, target: Context, *, kv_type: KVType = KVType.F16) -> None:
        header = model.header
        mask = header.metadata.get(dflash_file.MASK_TOKEN)
        if not isinstance(mask, int) or not 0 <= mask < model.vocab.size:
            raise LlamaError(f"{model.name} names no mask among its tokens, so it can't draft blocks.")
        self._mask_token = mask
        super().__init__(model, target, DFLASH_WIRING, kv_type=kv_type)
        self._api.llama_set_causal_attn(self.handle, header.of_architecture(dflash_file.CAUSAL) is True)
        longest = header.number(dflash_file.BLOCK) or dflash_file.USUAL_BLOCK
        self._block = Batch(min(longest, self.params.n_outputs_max))
        if any(header.array_of_architecture(dflash_file.ROPE_SECTIONS) or ()):
            self._pairs = StateBatch(self.n_batch, self._state_width(), _MROPE_POSITIONS)

    def _native_params(self) -> object:
        native = super()._native_params()
        # A window that is kept whole can be gone back in, as after an edit; the layers are few.
        native.swa_full = True
        return native

    def _state_width(self) -> int:
        # What is read is not the head's own state but the target's features, joined on the way into the cache.
        taps = self.model.header.array_of_architecture(dflash_file.TAPPED_LAYERS) or ()
        return len(taps) * self.model.n_embd

    @property
    def most_parallel(self) -> int:
        """Tokens that `draft_parallel` drafts at most: those of a block but the first, which is known."""
        return self._block.capacity - 1

    def draft(self, tokens: Sequence[int], states: States) -> tuple[Logits, States]:
        """Not possible: raises LlamaError. A block has no state to draft on from."""
        raise LlamaError("A DFlash head drafts whole blocks, not token by token.")

    def draft_parallel(self, tokens: Sequence[int], states: States, count: int) -> Logits:
        """Read the features `states` [len(tokens), n_features] of the tokens before `tokens`, then draft a block.

        Logits [count, vocabulary] of the `count` tokens after the last of `tokens`, none of which depends on another;
        `count` is at most `most_parallel`. Nothing of the block stays in the cache. Views and errors as those of
        `HeadContext.draft`.
        """
        if not tokens or not 1 <= count <= self.most_parallel:
            raise LlamaError(f"This head can't draft {count} tokens in one pass.")
        self.read(tokens, states)
        start = len(self.tokens)
        if start + 1 + count > self.n_ctx:
            raise ContextFull(f"The head's context of {self.n_ctx:,} tokens is full.")
        # llama.cpp computes logits of all rows and copies the first ones: all are asked for, also the known token's.
        self._block.fill([tokens[-1], *[self._mask_token] * count], start, count + 1)
        self._passed(self._api.llama_decode(self.handle, self._block.struct), count + 1)
        logits = self._logits(count + 1)[1:]
        if not self._forget_unread():
            raise LlamaError("Its cache can't let go of a block.")
        return logits

    def _pass(self, tokens: Sequence[int], states: States, position: int, outputs: int) -> None:
        self._pairs.fill_states(states, position, outputs=False)
        self._passed(self._api.llama_decode(self.handle, self._pairs.struct), len(tokens))
