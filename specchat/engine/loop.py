"""The speculative loop: draft, verify in one forward pass, accept, roll back (Leviathan et al. 2211.17192, alg. 1)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

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
    ) -> None:
        self._target = target
        self._drafter = drafter
        self._sampler = sampler
        self._depth = depth
        self._stop = stop
        self._cancelled = cancelled
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
                if not following and self.metrics.steps == 1 and self._limit() > 0:
                    self._start_drafter()
                    following = True
                yield self._step(following)

    def _start_drafter(self) -> None:
        started = time.perf_counter()
        self._drafter.begin(self.history, self._sampler)
        # Reading the prompt is a cost of drafting like any other.
        self.metrics.draft_s += time.perf_counter() - started

    def _limit(self) -> int:
        """How far to draft: no further than tokens are wanted or cells are free."""
        room = self._target.n_ctx - len(self.history)
        wanted = self._stop.wanted
        return max(0, min(self._depth, room, room if wanted is None else wanted - 1))

    def _step(self, following: bool) -> Step:
        started = time.perf_counter()
        limit = self._limit() if following else 0
        draft = self._drafter.propose(limit) if limit else Draft()
        drafted = time.perf_counter()
        step = self._verify(draft)
        verified = time.perf_counter()
        if following:
            self._drafter.commit(step)
        committed = time.perf_counter()
        self.metrics.record(step, drafted - started + committed - verified, verified - drafted)
        if self._stop.reason is not None:
            self.finish_reason = self._stop.reason
        return step

    def _verify(self, draft: Draft) -> Step:
        """One forward pass over the last token and the draft, judged, cut where the answer ends, rolled back."""
        length = len(self.history)
        try:
            rows = self._target.decode([self.history[-1], *draft.ids])

            def distribution(i: int) -> Distribution:
                # Row i was computed after the first i draft tokens: the penalties must see them too.
                self.history[length:] = draft.ids[:i]
                return self._sampler.distribution(rows[i], self.history)

            step = self._sampler.rule.accept(draft, distribution, length)
            step = step.cut(self._stop.keep(step.tokens))
            self.history[length:] = step.tokens
        except BaseException:
            del self.history[length:]
            raise
        finally:
            rolled_back = self._target.truncate(len(self.history) - 1)
        if not rolled_back:
            # Never met where llama.cpp's word on a model's memory was right; going on would be wrong text.
            raise DecodeFailed("The model's memory did not take back rejected tokens. Use --method none.")
        return step
