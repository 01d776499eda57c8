"""Answers that are no part of the conversation: a summary of it, or the runs of a comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from specchat.worker.messages import Ask, Cancel, Figures, Finished, Request, Tokens


@dataclass(frozen=True, slots=True)
class Written:
    """An answer that ended."""

    text: str
    """Without what was thought before it."""
    end: Finished

    @property
    def cancelled(self) -> bool:
        """The user stopped it."""
        return self.end.reason == "cancelled"


class Aside:
    """One answer after the other, out of sight; while there is an aside, no question of the conversation is asked."""

    def __init__(self, send: Callable[[Request], None], words: str) -> None:
        self.words = words
        """What happens, for the status line."""
        self.stopping = False
        self.tokens = 0
        """Of the answer that is being written."""
        self._send = send
        self._turn: int | None = None
        self._text: list[str] = []
        self._end: asyncio.Future[Finished] | None = None

    async def ask(self, ask: Ask) -> Written:
        """Have it answered, to the end; where the user has stopped all of it, nothing is asked any more."""
        if self.stopping:
            return Written("", Finished(ask.turn, "cancelled", Figures()))
        self._turn, self._text, self.tokens = ask.turn, [], 0
        self._end = asyncio.get_running_loop().create_future()
        self._send(ask)
        end = await self._end
        self._turn = None
        return Written("".join(self._text), end)

    def hear(self, event: Tokens | Finished) -> bool:
        """Take an event of the worker, if it is about this."""
        if event.turn != self._turn or self._end is None:
            return False
        self.tokens = event.figures.tokens
        if isinstance(event, Tokens):
            self._text += [span.text for span in event.spans if span.channel == "answer"]
        elif not self._end.done():
            self._end.set_result(event)
        return True

    def stop(self) -> None:
        """Ask nothing more, and stop what is being written."""
        if not self.stopping:
            self.stopping = True
            if self._turn is not None:
                self._send(Cancel(self._turn))

    def lose(self) -> None:
        """The worker is gone: nothing more will come."""
        self.stopping = True
        if self._turn is not None and self._end is not None and not self._end.done():
            self._end.set_result(Finished(self._turn, "error", Figures(), "the engine ended"))
