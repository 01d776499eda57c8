"""A front end for tests: it asks, and keeps what it hears."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from specchat.worker.client import Worker
from specchat.worker.messages import Ask, Event, Finished, Load, Loaded, Tokens

_E = TypeVar("_E")

STORY = "Tell me a very long story about a lighthouse keeper, a storm and a lost ship, with many details."
DEMO = Load("demo", threads=1)
"""One thread: two of them wait for each other wherever something else runs too."""
SMALL = Load("demo", context=1024, method="none", threads=1)


class Listener:
    """A worker and every event it sent, with the times they came."""

    def __init__(self) -> None:
        self.worker = Worker(self._hear)
        self.events: list[Event] = []
        self.times: list[float] = []
        self._read = 0
        self._news = asyncio.Event()

    def _hear(self, event: Event) -> None:
        self.events.append(event)
        self.times.append(time.monotonic())
        self._news.set()

    async def until(self, kind: type[_E], patience_s: float = 60) -> _E:
        """The next event of `kind`; what comes before it is passed over."""
        async with asyncio.timeout(patience_s):
            while True:
                while self._read < len(self.events):
                    event = self.events[self._read]
                    self._read += 1
                    if isinstance(event, kind):
                        return event
                self._news.clear()
                await self._news.wait()

    async def answer(self, ask: Ask) -> Finished:
        """Ask, and wait for the end."""
        self.worker.send(ask)
        return await self.until(Finished)

    def text(self, turn: int, channel: str = "answer") -> str:
        """What was written in this turn so far."""
        return "".join(
            span.text
            for event in self.events
            if isinstance(event, Tokens) and event.turn == turn
            for span in event.spans
            if span.channel == channel
        )

    def count(self, kind: type) -> int:
        """How many events of `kind` came."""
        return sum(isinstance(event, kind) for event in self.events)


@asynccontextmanager
async def listening(load: Load | None = DEMO) -> AsyncIterator[Listener]:
    """A started worker with an open model, closed at the end."""
    listener = Listener()
    try:
        await listener.worker.start()
        if load is not None:
            listener.worker.send(load)
            await listener.until(Loaded)
        yield listener
    finally:
        await listener.worker.close()


def question(turn: int, text: str, **choices: object) -> Ask:
    """One user message, answered greedily unless said otherwise."""
    settings: dict[str, object] = {"sampling": {"temperature": 0.0}, **choices}
    return Ask(turn, "chat", (("user", text),), **settings)  # type: ignore[arg-type]


def long_text(words: int) -> str:
    """A text of about four tokens a word, without repetitions to draft from."""
    return " ".join(f"item{i * 7919 % 1000}" for i in range(words))
