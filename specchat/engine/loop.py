"""The speculative loop: draft, verify in one forward pass, accept, roll back (Leviathan et al. 2211.17192, alg. 1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.base import Drafter
from specchat.engine.stopping import FinishReason, StopRule
from specchat.llama.errors import DecodeFailed
from specchat.speculation.distribution import Distribution
from specchat.speculation.metrics import Metrics
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step


class Target(Protocol):
    """The target's KV cache and forward pass; `specchat.llama.context.Context` is one, tests drive a table."""

    tokens: list[int]
    n_ctx: int

    def decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Append `tokens`; logits [rows, V], one row a token, valid until the next pass."""

    def truncate(self, length: int) -> bool:
        """Forget what lies past `length`."""

    def clear(self) -> None:
        """Forget everything."""

    def decode_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> NDArray[np.float32]:
        """Read `tokens`, where row i follows row `parents[i]` (−1: the cache); logits [rows, V], one row a token."""

    def keep_path(self, path: Sequence[int]) -> bool:
        """Append the rows `path` of the last tree, each the parent of the next, and forget the others."""


@runtime_checkable
class RowReader(Protocol):
    """A drafter that learns from the target's rows, rejected ones included (Jacobi guesses)."""

    def observe(self, rows: NDArray[np.float32], draft: Draft, step: Step) -> None:
        """See the logits [rows, V] of the pass that judged `draft`; they are valid only until this returns."""


class PlainRate(Protocol):
    """The measured rate of plain decoding; wants a true plain step now and then."""

    def begin_turn(self) -> None:
        """An answer has its first token."""

    def wants_plain_step(self, context: int) -> bool:
        """Whether the step after `context` tokens should be plain."""

    def record(self, depth: int, seconds: float, context: int) -> None:
        """Add a step of `depth` draft tokens after `context` tokens whose pass took `seconds`."""


@runtime_checkable
class Chooser(Protocol):
    """A drafter that decides how far to draft, and with what, from what its steps brought and took."""

    def expect(self, remaining: int | None) -> None:
        """Hear how many tokens may still come at most; None: any number."""

    def record(self, draft: Draft, step: Step, draft_s: float, verify_s: float) -> None:
        """Learn what `step` did with `draft`, and the seconds that drafting and verifying took."""


class Loop:
    """Writes one answer, step by step.

    `history` is the transcript: the prompt and every emitted token. The target's cache holds all of it but the
    last token, which is the first row of the next pass; so it is before every step and after every way to leave
    one (a cut, an error, a closed generator).
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        sampler: Sampler,
        *,
        depth: int,
        stop: StopRule,
        cancelled: Callable[[], bool] = lambda: False,
        plain_rate: PlainRate | None = None,
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._sampler = sampler
        self._depth = depth
        self._stop = stop
        self._cancelled = cancelled
        self._plain_rate = plain_rate
        self._reader = drafter if isinstance(drafter, RowReader) else None
        self._chooser = drafter if isinstance(drafter, Chooser) else None
        self.metrics = Metrics()
        self.history: list[int] = []
        self.finish_reason: FinishReason | None = None

    def run(self, prompt: Sequence[int]) -> Iterator[Step]:
        """Yield the steps of an answer to `prompt`, all of which but its last token the target has read.

        The first step is plain: no token waits for a drafter to read the prompt. `finish_reason` is set when the
        iterator ends; it stays None when the caller stops iterating.
        """
        self.history = list(prompt)
        following = False
        while self.finish_reason is None:
            if self._cancelled():
                self.finish_reason = FinishReason.CANCELLED
            elif len(self.history) > self._target.n_ctx:
                self.finish_reason = FinishReason.LENGTH
            else:
                if self.metrics.steps == 1:
                    following = self._after_first_token()
                yield self._step(following)

    def _after_first_token(self) -> bool:
        """Begin all that no first token should wait for; whether drafts are made from now on."""
        if self._plain_rate is not None:
            self._plain_rate.begin_turn()
        if self._limit() == 0:
            return False
        self._start_drafter()
        return True

    def _start_drafter(self) -> None:
        started = time.perf_counter()
        if self._chooser is not None:
            self._chooser.expect(self._stop.wanted)
        self._drafter.begin(self.history, self._sampler)
        # Reading the prompt is a cost of drafting like any other.
        self.metrics.draft_s += time.perf_counter() - started

    def _limit(self) -> int:
        """How far to draft: no further than tokens are wanted or cells are free."""
        room = self._target.n_ctx - len(self.history)
        wanted = self._stop.wanted
        return max(0, min(self._depth, room, room if wanted is None else wanted - 1))

    def _wished(self, context: int) -> int:
        """Most tokens to draft in this step; 0 where it is to be plain."""
        plain = self._plain_rate is not None and self._plain_rate.wants_plain_step(context)
        return 0 if plain else self._limit()

    def _step(self, following: bool) -> Step:
        started = time.perf_counter()
        context = len(self.history)
        draft = self._drafter.propose(self._wished(context)) if following else Draft()
        drafted = time.perf_counter()
        step = self._verify(draft, self._reader if following else None)
        verified = time.perf_counter()
        if following:
            self._drafter.commit(step)
        draft_s = drafted - started + time.perf_counter() - verified
        self.metrics.record(step, draft_s, verified - drafted, draft.source)
        if self._plain_rate is not None and self.metrics.steps > 1:
            self._plain_rate.record(len(draft), verified - drafted, context)
        if following and self._chooser is not None:
            self._chooser.record(draft, step, draft_s, verified - drafted)
        if self._stop.reason is not None:
            self.finish_reason = self._stop.reason
        return step

    def _verify(self, draft: Draft, reader: RowReader | None) -> Step:
        """One forward pass over the last token and the draft, judged, cut where the answer ends, rolled back."""
        length = len(self.history)
        path: Sequence[int] = ()
        try:
            rows = self._decode(draft)

            def distribution(i: int) -> Distribution:
                # Row i was computed after the draft tokens before it: the penalties must see them too.
                self.history[length:] = draft.prefix(i)
                return self._sampler.distribution(rows[i], self.history)

            step = self._sampler.rule.accept(draft, distribution, length)
            step = step.cut(self._stop.keep(step.tokens))
            if reader is not None:
                reader.observe(rows, draft, step)
            self.history[length:] = step.tokens
            path = step.path or ()
        except BaseException:
            del self.history[length:]
            raise
        finally:
            rolled_back = self._roll_back(draft, path, len(self.history) - length)
        if not rolled_back:
            # Never met where llama.cpp's word on a model's memory was right; going on would be wrong text.
            raise DecodeFailed("The model's memory did not take back rejected tokens. Use --method none.")
        return step

    def _decode(self, draft: Draft) -> NDArray[np.float32]:
        last = self.history[-1]
        if draft.parents is None:
            return self._target.decode([last, *draft.ids])
        return self._target.decode_tree([last, *draft.ids], [-1, *(parent + 1 for parent in draft.parents)])

    def _roll_back(self, draft: Draft, path: Sequence[int], emitted: int) -> bool:
        """Let the cache hold the transcript but its last token, of which a step has just `emitted` some."""
        if draft.parents is None:
            return self._target.truncate(len(self.history) - 1) or self._forget_all()
        # The pass began with the token that was last before; the one that is last now stays out.
        return self._target.keep_path([0, *(node + 1 for node in path)][:emitted])

    def _forget_all(self) -> bool:
        """Empty the cache where an answer ends and a running state can't go back far enough; else False.

        A stop string takes back one token more than was drafted. The next answer reads the text again.
        """
        if self._stop.reason is None:
            return False
        self._target.clear()
        return True
