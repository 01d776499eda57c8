"""What decoding did in one answer, read off its metrics."""

from __future__ import annotations

import time
from collections import Counter

from specchat.chat.session import Session
from specchat.engine.answer import Answer
from specchat.engine.speed import Speed, speed_of
from specchat.llama.devices import DeviceMemory
from specchat.speculation.step import Step
from specchat.worker.messages import Figures

_MEMORY_EVERY_S = 0.5
"""Asking a device for its memory may wait for what it computes."""


class AnswerFigures:
    """The figures of one answer as it is written; a plain one has no speed-up to speak of."""

    def __init__(self, session: Session, answer: Answer, *, speculate: bool) -> None:
        self._session = session
        self._answer = answer
        self._speculate = speculate
        self._depth = 0
        self._source = ""
        self._drafts: Counter[str] = Counter()
        self._memory: DeviceMemory | None = None
        self._asked_at = 0.0

    def see(self, step: Step) -> None:
        """Take note of how far the step drafted, and with what."""
        self._depth = step.drafted
        if step.drafted:
            drafts = self._answer.metrics.methods
            source = next(iter(drafts - self._drafts), "")
            self._source = source or self._session.engine.method.value
            self._drafts[source] = drafts[source]

    def now(self) -> Figures:
        """The figures up to the last step."""
        answer, metrics, engine = self._answer, self._answer.metrics, self._session.engine
        speed, memory, method = self._speed(), self._memory_now(), engine.method.value
        return Figures(
            tokens=metrics.emitted,
            steps=metrics.steps,
            drafted=metrics.drafted,
            tested=metrics.tested,
            accepted=metrics.accepted,
            trees=metrics.trees,
            alpha=metrics.alpha,
            tokens_per_step=metrics.tokens_per_step,
            tok_s=speed.tok_s,
            plain_tok_s=speed.plain_tok_s,
            speedup=speed.speedup,
            per_position=metrics.per_position,
            depths=dict(metrics.depths),
            methods={source or method: count for source, count in metrics.methods.items()},
            choices=dict(engine.choices) if self._speculate else {},
            depth=self._depth,
            source=self._source,
            draft_s=metrics.draft_s,
            verify_s=metrics.verify_s,
            ttft_s=answer.timings.ttft_s,
            prefill_tok_s=answer.timings.prefill_tok_s,
            prompt_tokens=answer.timings.prompt_tokens,
            context_used=answer.timings.prompt_tokens + metrics.emitted,
            used_bytes=memory.used_bytes,
            free_bytes=memory.free_bytes,
        )

    def _speed(self) -> Speed:
        speed = speed_of(self._session.engine, self._answer)
        return speed if self._speculate else Speed(speed.tok_s, None)

    def _memory_now(self) -> DeviceMemory:
        now = time.monotonic()
        if self._memory is None or now - self._asked_at >= _MEMORY_EVERY_S:
            self._memory, self._asked_at = self._session.memory(), now
        return self._memory
