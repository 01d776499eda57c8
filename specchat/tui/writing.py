"""An answer while it is written: its text so far, saved as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.worker.messages import Figures, Span

SAVE_EVERY_S: Final = 0.7
"""A kill loses less than a second."""


class Writing:
    """One answer: its place in the store, and what the worker sent of it."""

    def __init__(self, turn: int, node_id: int, speculate: bool, now: float, max_tokens: int | None = None) -> None:
        self.turn = turn
        self.node_id = node_id
        self.speculate = speculate
        self.max_tokens = max_tokens
        self.figures = Figures()
        self.read, self.to_read = 0, 0
        """Tokens of the prompt."""
        self.stopping = False
        self.shown = True
        """The transcript shows its conversation."""
        self.spans: list[Span] = []
        self._texts: dict[str, list[str]] = {"answer": [], "reasoning": []}
        self._saved_at = now
        self._saving: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._texts["answer"])

    @property
    def reasoning(self) -> str:
        """What was thought so far."""
        return "".join(self._texts["reasoning"])

    def take(self, spans: tuple[Span, ...], figures: Figures) -> None:
        """Add what became certain; neighbours of one origin become one span."""
        self.figures = figures
        for span in spans:
            self._texts.setdefault(span.channel, []).append(span.text)
            last = self.spans[-1] if self.spans else None
            if last is not None and (last.channel, last.origin) == (span.channel, span.origin):
                self.spans[-1] = Span(last.channel, last.text + span.text, last.origin)
            else:
                self.spans.append(span)

    def save_now_and_then(self, store: Store, now: float, failed: Callable[[StoreError], None]) -> None:
        """Save what there is where the last time is long enough ago; the screen never waits for the disk."""
        if now - self._saved_at < SAVE_EVERY_S or (self._saving is not None and not self._saving.done()):
            return
        self._saved_at = now
        text, reasoning = self.text, self.reasoning

        async def save() -> None:
            try:
                await asyncio.to_thread(store.write, self.node_id, text=text, reasoning=reasoning)
            except StoreError as error:
                failed(error)

        self._saving = asyncio.get_running_loop().create_task(save())

    async def save_finished(self, store: Store, reason: str) -> None:
        """Save all of it, with its figures; raises StoreError."""
        if self._saving is not None:
            await self._saving
        await asyncio.to_thread(
            store.write,
            self.node_id,
            text=self.text,
            reasoning=self.reasoning,
            finish_reason=reason,
            statistics=self.statistics(),
            spans=[(span.channel, span.text, span.origin) for span in self.spans],
        )

    def statistics(self) -> dict[str, Any]:
        """The figures as they are stored, whether drafting was allowed, and after how many tokens to end."""
        return {**asdict(self.figures), "speculate": self.speculate, "max_tokens": self.max_tokens}
