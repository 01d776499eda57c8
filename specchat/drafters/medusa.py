"""Drafting with Medusa heads (Cai et al. 2401.10774): each guesses one of the next tokens from one hidden state.

The heads read the state that the target's newest token was chosen from, so a draft needs no pass over any text. Head
i's guess depends on that state alone, not on what the heads before it guessed. A chain's tokens are drawn one by one
from the distributions of their heads, which makes rejection sampling exact; of a target that reads trees the best
candidates of each head are tried as a small one (section 2.1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.best_first import level_tree
from specchat.drafters.chain import Ranking, sampled_chain
from specchat.drafters.heads.vocabulary import ReducedSampler
from specchat.drafters.method import Method
from specchat.llama.errors import LlamaError
from specchat.llama.final_state import FinalStateContext
from specchat.llama.gguf import Header, read_header
from specchat.llama.medusa import MedusaHeads, MedusaShape, MedusaUnusable
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

Floats = NDArray[np.float32]


class StateTarget(Protocol):
    """The target as the heads see it; `specchat.llama.final_state.FinalStateContext` is one."""

    tokens: list[int]
    n_ctx: int

    def final_state(self) -> Floats | None:
        """The state [width] at the last token held; None where it is not known."""


class Heads(Protocol):
    """The heads; `specchat.llama.medusa.MedusaHeads` is one."""

    n_heads: int
    n_tokens: int
    size_bytes: int
    token_ids: NDArray[np.int64] | None

    def see(self, state: Floats) -> None:
        """Take a state [width]."""

    def logits(self, head: int) -> Floats:
        """Logits [columns] of the token `head` + 2 places after the state's."""

    def close(self) -> None:
        """Free them."""


class MedusaDrafter:
    """Samples a chain of at most as many tokens as there are heads, or takes the most promising tree.

    The loop keeps all ids but the last in the target's cache, and the state at its last token is what the heads read.
    Where that state is not known (the text was just read as a prompt) or the cache holds something else, nothing is
    proposed; the next step of the target brings a state. Heads that fail draft nothing more, and `note` says so.
    """

    method = Method.MEDUSA

    def __init__(
        self, target: StateTarget, heads: Heads, is_end_of_generation: Callable[[int], bool], *, leaves: int = 1
    ) -> None:
        """`leaves`: ends of the trees that the target can read; 1: chains only."""
        self.note: str | None = None
        self._target = target
        self._heads = heads
        self._leaves = leaves
        self._is_end = is_end_of_generation
        self._ids: list[int] = []
        self._follows = False
        """Whether the target's cache is known to hold all ids but the last."""
        self._sampler: Ranking | None = None

    @property
    def extra_bytes(self) -> int:
        """Memory beyond the target's: the heads' weights."""
        return self._heads.size_bytes

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`; there is nothing to read, since the states are the target's."""
        reduced = self._heads.token_ids
        self._sampler = sampler if reduced is None else ReducedSampler(sampler, reduced, n_tokens=self._heads.n_tokens)
        self._ids = list(ids)
        self._follows = False

    def propose(self, limit: int) -> Draft:
        """Up to `limit` tokens; a chain has one a head, and ends with a token that ends the answer."""
        if self._sampler is None:
            raise RuntimeError("propose() came before begin().")
        limit = min(limit, self._target.n_ctx - len(self._ids))
        state = self._state() if limit > 0 and self.note is None else None
        if state is None:
            return Draft()
        try:
            self._heads.see(state)
            return self._draft(limit, self._sampler)
        except (LlamaError, ValueError) as error:
            # A row that makes no distribution is a ValueError.
            self.note = (
                f"The Medusa heads stopped drafting ({str(error).rstrip('.')}); the text is the same without them."
            )
            return Draft()

    def _draft(self, limit: int, sampler: Ranking) -> Draft:
        rows = [partial(self._heads.logits, head) for head in range(self._heads.n_heads)]
        if min(limit, self._leaves) > 1 and sampler.may_branch:
            return level_tree(self._ids, limit, self._leaves, rows, sampler, self._is_end)
        levels = iter(rows)
        return sampled_chain(
            self._ids,
            self._ids[-1:],
            min(limit, len(rows)),
            logits=lambda _tokens: next(levels)(),
            sampler=sampler,
            is_end_of_generation=self._is_end,
        )

    def _state(self) -> Floats | None:
        """The state that the last of the ids held was chosen from."""
        held = self._target.tokens
        if len(held) != len(self._ids) - 1:
            return None
        if not self._follows:
            # Once a turn: from here on the loop takes both along, step by step.
            self._follows = self._ids[:-1] == held
        return self._target.final_state() if self._follows else None

    def commit(self, step: Step) -> None:
        """Follow the ids; the loop has brought the target's cache where it belongs."""
        self._ids.extend(step.tokens)

    def close(self) -> None:
        """Free the heads; the target is not ours."""
        self._heads.close()


def open_medusa(target: FinalStateContext, path: Path, *, gpu_layers: int = -1) -> MedusaDrafter:
    """The drafter with the heads in `path`, a file that `specchat models convert` has written, beside `target`.

    Raises MedusaUnusable, ModelUnusable, DoesNotFit or LlamaError with a sentence for the user.
    """
    model = target.model
    require_medusa_pair(path, model.name, model.header)
    heads = MedusaHeads(path, threads=target.params.threads, gpu=gpu_layers != 0)
    return MedusaDrafter(target, heads, model.vocab.is_end_of_generation, leaves=target.params.n_seq_max)


def require_medusa_pair(path: Path, target_name: str, target: Header) -> None:
    """Raise MedusaUnusable where the heads in `path` were not made for the target, which need not be loaded for it.

    Raises ModelUnusable for a file that is none.
    """
    heads = MedusaShape(path.name, read_header(path))
    width = target.of_architecture("embedding_length")
    n_tokens = target.array_lengths.get("tokenizer.ggml.tokens")
    advice = "Name the heads that were made for it with --draft."
    if heads.width != width:
        raise MedusaUnusable(
            f"The heads in {path.name} read states of width {heads.width:,}; those of {target_name} have {width:,}. "
            f"{advice}"
        )
    if heads.n_tokens != n_tokens:
        raise MedusaUnusable(
            f"The heads in {path.name} were made for a vocabulary of {heads.n_tokens:,} tokens; {target_name} has "
            f"{n_tokens:,}. {advice}"
        )
