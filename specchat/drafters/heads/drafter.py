"""Drafting with a trained head (Li et al. 2503.01840, section 3.1; DeepSeek-V3 2412.19437, section 2.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.best_first import Candidates, Path, best_first, level_tree
from specchat.drafters.chain import Ranking, sampled_chain
from specchat.drafters.heads.expansion import Expansion
from specchat.drafters.heads.rows import States, TargetRows
from specchat.drafters.heads.vocabulary import ReducedSampler
from specchat.drafters.method import Method
from specchat.drafters.prefix import common_prefix
from specchat.llama.errors import LlamaError, PrefillCancelled
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

_PIECE = 64
"""Tokens read at once: between two pieces a turn can be stopped."""


class Head(Protocol):
    """A head's cache and passes; `specchat.llama.trained_head.HeadContext` is one."""

    tokens: list[int]
    """Those it has read, from the text's token number `first` on."""
    n_ctx: int
    draft_ids: NDArray[np.int64] | None
    """The tokens that it can draft, ascending; None: all."""

    @property
    def first(self) -> int:
        """The text's first token that it reads."""

    def encode(self, features: States) -> States:
        """States [n, width] from the target's features of the tokens before the next ones."""

    def read(self, tokens: Sequence[int], states: States) -> None:
        """Read pairs of a token and the state before it, without logits."""

    def draft(self, tokens: Sequence[int], states: States) -> tuple[NDArray[np.float32], States]:
        """Read pairs; the logits [V] after the last, and the head's own state there [1, width]."""

    @property
    def most_drafted(self) -> int:
        """Tokens that it drafts after a text at most."""

    @property
    def most_parallel(self) -> int:
        """Tokens that one pass drafts at most; 1: token by token."""

    def draft_parallel(self, tokens: Sequence[int], states: States, count: int) -> NDArray[np.float32]:
        """Read pairs; logits [count, V] of the `count` tokens after the last, from one pass."""

    def truncate(self, length: int) -> bool:
        """Forget what lies past `length` tokens read."""

    def close(self) -> None:
        """Free the cache."""


class HeadDrafter:
    """Samples a chain of tokens from a head, from the very distributions it reports.

    The head reads a token together with the target's feature of the token before, so it follows the target by what
    passes leave behind (`take_pass`), not by the text alone. It reads when it drafts, or when no more rows can wait.
    What it needs and nobody holds any more (after an edit), the target must read again: `keeps` says from where.
    A head that fails drafts nothing more, and `note` says so.
    """

    def __init__(
        self,
        head: Head,
        rows: TargetRows,
        name: str,
        is_end_of_generation: Callable[[int], bool],
        cancelled: Callable[[], bool] = lambda: False,
        *,
        method: Method,
        leaves: int = 1,
    ) -> None:
        """`leaves`: ends of the trees that the target can read; 1: chains only."""
        self.method = method
        self.note: str | None = None
        self._head = head
        self._rows = rows
        self._name = name
        self._is_end = is_end_of_generation
        self._cancelled = cancelled
        self._leaves = leaves
        self._ids: list[int] = []
        self._agreed = 0
        """Tokens at the beginning of `_ids` that the target is known to have read."""
        self._sampler: Ranking | None = None

    def take_pass(self, position: int, tokens: Sequence[int]) -> None:
        """Hear of a pass of the target over `tokens` at `position`, while its rows can be read. Never raises."""
        if self.note is not None:
            return
        try:
            if self._rows.full(position, len(tokens)):
                # All before this pass is text by now, and so is its first token.
                self._follow([*self._rows.tokens[:position], tokens[0]], lambda: False)
            self._rows.take(position, tokens)
            self._agreed = min(self._agreed, position)
        except LlamaError as error:
            self._give_up(error)

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with `ids`, reading all but the last of them as far as the target's rows are held.

        Raises PrefillCancelled when stopped; what was read stays and the next call goes on from there.
        """
        reduced = self._head.draft_ids
        self._sampler = sampler if reduced is None else ReducedSampler(sampler, reduced)
        self._ids = list(ids)
        self._agreed = self._rows.held(self._ids).stop
        if self.note is None:
            try:
                self._follow(self._ids[:-1], self._cancelled)
            except PrefillCancelled:
                raise
            except LlamaError as error:
                self._give_up(error)

    def missing(self, ids: Sequence[int]) -> int:
        """Tokens that `begin(ids)` would read."""
        return max(0, len(ids) - 1 - self._kept(ids))

    def keeps(self, ids: Sequence[int]) -> int:
        """How many of the first `ids` the target may keep in its cache so that no feature is missing here."""
        # The last token is read in any case: its pair is what the first draft comes from.
        needed = max(0, min(self._kept(ids), len(ids) - 1) - 1)
        return len(ids) if self.note is not None or needed in self._rows.held(ids) else needed

    def _kept(self, ids: Sequence[int]) -> int:
        """The first of `ids` that the head must read."""
        first = self._head.first
        return first + common_prefix(self._head.tokens, ids[first:], limit=max(0, len(ids) - first))

    def _follow(self, ids: Sequence[int], cancelled: Callable[[], bool]) -> None:
        """Let the head hold a prefix of `ids`, all of them where the rows are at hand."""
        start = self._kept(ids)
        self._cut(start)
        held = self._rows.held(ids)
        if max(0, start - 1) not in held:
            return
        end = min(len(ids), held.stop + 1)
        for piece in range(start, end, _PIECE):
            if cancelled():
                raise PrefillCancelled("Stopped.")
            part = range(piece, min(piece + _PIECE, end))
            self._head.read(ids[part.start : part.stop], self._states(part))

    def _cut(self, length: int) -> None:
        """Let the head forget all from the text's token number `length` on."""
        if not self._head.truncate(max(0, length - self._head.first)):
            raise LlamaError("its cache can't be cut")

    def _states(self, positions: range) -> States:
        """The states that stand before the tokens at `positions`."""
        if positions.start > 0:
            return self._head.encode(self._rows.of(range(positions.start - 1, positions.stop - 1)))
        features = self._rows.of(range(0, positions.stop - 1))
        return self._head.encode(np.concatenate([np.zeros((1, features.shape[1]), np.float32), features]))

    def propose(self, limit: int) -> Draft:
        """Up to `limit` sampled tokens; drafting stops after a token that ends the answer."""
        if self._sampler is None:
            raise RuntimeError("propose() came before begin().")
        limit = min(limit, self._head.most_drafted, self._head.n_ctx - len(self._ids))
        if limit <= 0 or self.note is not None:
            return Draft()
        try:
            pending = self._pending()
            return self._draft(pending, limit, self._sampler) if pending else Draft()
        except (LlamaError, ValueError) as error:
            # A row that makes no distribution is a ValueError.
            self._give_up(error)
            return Draft()

    def _pending(self) -> range:
        """The tokens to read before a token can be drafted, at least the last; empty where a row is missing."""
        last = len(self._ids) - 1
        self._cut(last)
        start = self._next()
        tokens = self._rows.tokens
        while self._agreed < min(last, len(tokens)) and tokens[self._agreed] == self._ids[self._agreed]:
            self._agreed += 1
        known = self._agreed >= last and max(0, start - 1) >= self._rows.first
        return range(start, last + 1) if known else range(0)

    def _next(self) -> int:
        """The text's first token that the head has not read."""
        return self._head.first + len(self._head.tokens)

    def _draft(self, pending: range, limit: int, sampler: Ranking) -> Draft:
        """Read the tokens at `pending`, then draft on from what the head made itself, which it forgets again."""
        in_parallel = self._head.most_parallel > 1
        limit = min(limit, self._head.most_parallel) if in_parallel else limit
        make = self._tree if min(limit, self._leaves) > 1 and sampler.may_branch else self._chain
        try:
            return make(pending, limit, sampler, in_parallel=in_parallel)
        finally:
            self._cut(pending.stop)

    def _chain(self, pending: range, limit: int, sampler: Ranking, *, in_parallel: bool) -> Draft:
        return sampled_chain(
            self._ids,
            self._ids[pending.start :],
            limit,
            logits=self._row_by_row(pending, limit) if in_parallel else self._pass_by_pass(pending),
            sampler=sampler,
            is_end_of_generation=self._is_end,
        )

    def _tree(self, pending: range, limit: int, sampler: Ranking, *, in_parallel: bool) -> Draft:
        """The likeliest tokens of every row are its children; a head that drafts in parallel has one row a level."""
        if in_parallel:
            rows = self._head.draft_parallel(self._ids[pending.start :], self._states(pending), limit)
            levels = [partial(rows.__getitem__, level) for level in range(limit)]
            return level_tree(self._ids, limit, self._leaves, levels, sampler, self._is_end)
        expansion = Expansion(
            self._head,
            self._ids[pending.start :],
            self._states(pending),
            cut=lambda drafted: self._cut(pending.stop + drafted),
        )

        def below(path: Path) -> Candidates:
            return sampler.ranked(expansion.logits(path), [*self._ids, *path], self._leaves)

        return best_first(limit, self._leaves, below, self._is_end)

    def _pass_by_pass(self, pending: range) -> Callable[[Sequence[int]], NDArray[np.float32]]:
        """The logits after each token, from a pass of its own; the head's state takes the feature's place."""
        state: States | None = None

        def logits(tokens: Sequence[int]) -> NDArray[np.float32]:
            nonlocal state
            row, state = self._head.draft(tokens, self._states(pending) if state is None else state)
            return row

        return logits

    def _row_by_row(self, pending: range, count: int) -> Callable[[Sequence[int]], NDArray[np.float32]]:
        """The logits of each token to draft, from one pass: none depends on what is drawn before it."""
        rows = iter(self._head.draft_parallel(self._ids[pending.start :], self._states(pending), count))
        return lambda _tokens: next(rows)

    def commit(self, step: Step) -> None:
        """Follow the text; the head reads it when it next drafts."""
        self._ids.extend(step.tokens)

    def _give_up(self, error: Exception) -> None:
        self.note = f"{self._name} stopped drafting ({str(error).rstrip('.')}); the text is the same without it."

    def close(self) -> None:
        """Free the head's cache."""
        self._head.close()


class AssistantDrafter(HeadDrafter):
    """Samples a chain from a head that looks at the target's own cache: there is no text for it to read."""

    def _kept(self, ids: Sequence[int]) -> int:
        return len(ids)

    def _next(self) -> int:
        return len(self._ids) - 1

    def _follow(self, ids: Sequence[int], cancelled: Callable[[], bool]) -> None:
        """The target's cache is where it belongs."""

    def _cut(self, length: int) -> None:
        """Nothing is left in the cache."""
