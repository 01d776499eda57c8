"""One answer in the making, and its figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from specchat.engine.loop import Loop
from specchat.engine.stopping import FinishReason
from specchat.speculation.metrics import Metrics
from specchat.speculation.step import Step


@dataclass(slots=True)
class Timings:
    """Seconds and counts of one answer."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Of the prompt, those whose keys and values were still in the cache."""
    prefill_s: float = 0.0
    ttft_s: float | None = None
    """From the call to the first token; None until there is one."""

    @property
    def prefill_tok_s(self) -> float | None:
        """Prompt tokens read a second; None when nothing was read."""
        read = self.prompt_tokens - 1 - self.reused_tokens
        return read / self.prefill_s if read > 0 and self.prefill_s > 0 else None


class Answer:
    """One answer in the making: iterate it for its steps; its figures are right at any time."""

    def __init__(self, steps: Iterator[Step], loop: Loop, timings: Timings) -> None:
        self._steps = steps
        self._loop = loop
        self.timings = timings

    def __iter__(self) -> Iterator[Step]:
        return self._steps

    @property
    def metrics(self) -> Metrics:
        """What drafting has brought."""
        return self._loop.metrics

    @property
    def transcript(self) -> list[int]:
        """The prompt's token ids and those emitted so far."""
        return self._loop.history

    @property
    def token_ids(self) -> list[int]:
        """Every token emitted so far, the one that ended the answer included."""
        return self._loop.history[self.timings.prompt_tokens :]

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why it ended; None while it is being written or when its reader left."""
        return self._loop.finish_reason

    @property
    def decode_s(self) -> float:
        """Seconds spent on steps: drafting (its own reading of the prompt included) and verifying."""
        return self.metrics.draft_s + self.metrics.verify_s
