"""What the worker says, and what becomes of it."""

from __future__ import annotations

import asyncio
from functools import singledispatchmethod
from typing import Final

from specchat.chat.store_file import NotStored, StoreError
from specchat.tui.shortening import Shortening
from specchat.tui.talk import Talk
from specchat.tui.wording import answer_line, compared
from specchat.tui.writing import Writing
from specchat.worker.messages import (
    Died,
    Figures,
    Finished,
    Loaded,
    LoadFailed,
    Loading,
    Measured,
    Note,
    Prefill,
    Tokens,
)

_DIED: Final = "The engine ended. What was written is kept; the box above the prompt says why, and what to do."
_WAY_OUT: Final = (
    "/trim leaves the oldest messages unread or summarises them; /reload larger opens the model with twice the context."
)


class Hearing:
    """Takes the worker's events to the conversation, the store and the screen."""

    def __init__(self, talk: Talk, shortening: Shortening) -> None:
        self._talk, self._stage, self._engine = talk, talk.stage, talk.engine
        self._shortening = shortening
        self._saving_again: asyncio.Task[None] | None = None

    @singledispatchmethod
    async def hear(self, event: object) -> None:
        """Do what an event of the worker asks for; raises StoreError."""
        raise TypeError(f"An event of an unknown kind: {event!r}")

    @hear.register
    async def _(self, event: Loading) -> None:
        self._engine.stage = event.stage
        self._stage.changed()

    @hear.register
    async def _(self, event: Loaded) -> None:
        if not self._engine.ended():
            return
        self._engine.opened(event)
        for note in event.notes:
            self._stage.say(note)
        self._stage.withdraw_offer()
        self._stage.changed()
        asked = False
        try:
            asked = await self._shortening.ask_again()
        finally:
            if not asked:
                await self._talk.go_on()

    @hear.register
    async def _(self, event: LoadFailed) -> None:
        if not self._engine.ended():
            return
        self._engine.lost()
        self._stage.offer_reload(event.reason, not_here=event.not_here)
        self._stage.changed()

    @hear.register
    async def _(self, event: Prefill) -> None:
        writing = self._being_written(event.turn)
        if writing is not None:
            writing.read, writing.to_read = event.read, event.total
            if writing.shown and event.read < event.total:
                self._stage.status(f"reading the conversation: {event.read:,} of {event.total:,} tokens")
            self._stage.changed()

    @hear.register
    async def _(self, event: Tokens) -> None:
        writing = self._being_written(event.turn)
        if writing is None:
            if self._talk.aside is not None and self._talk.aside.hear(event):
                self._stage.changed()
            return
        writing.take(event.spans, event.figures)
        self._engine.take(event.figures)
        self._talk.track.take(event.figures)
        if writing.shown:
            self._stage.append(event.spans, event.figures.tokens)
        writing.save_now_and_then(self._talk.store, self._talk.options.clock(), self._not_saved)
        self._stage.changed()

    @hear.register
    async def _(self, event: Finished) -> None:
        writing = self._being_written(event.turn)
        if writing is None:
            if self._talk.aside is not None:
                self._talk.aside.hear(event)
            return
        self._engine.take(event.figures)
        refused = event.context_full and event.error
        if refused:
            # The next ones would be refused as well.
            self._talk.take_back_waiting()
        elif event.context_full:
            self._stage.say(f"The answer ends here since the context is full. {_WAY_OUT}", "warning")
        await self._finish(writing, event.figures, event.reason, event.error or "")
        if refused and writing.shown:
            await self._shortening.refused(writing.node_id)

    @hear.register
    async def _(self, event: Measured) -> None:
        await self._shortening.measured(event)

    @hear.register
    async def _(self, event: Note) -> None:
        self._stage.say(event.text)

    @hear.register
    async def _(self, event: Died) -> None:
        self._engine.lost()
        self._stage.offer_reload(event.reason)
        self._stage.say(_DIED, "error")
        writing = self._talk.writing
        if self._talk.aside is not None:
            self._talk.aside.lose()
        if writing is not None:
            await self._finish(writing, writing.figures, "error", "the engine ended")
        self._stage.changed()

    def _being_written(self, turn: int) -> Writing | None:
        return self._talk.writing if self._talk.writing is not None and self._talk.writing.turn == turn else None

    async def _finish(self, writing: Writing, figures: Figures, reason: str, error: str) -> None:
        before = self._talk.history[-1] if self._talk.history else (None, True)
        writing.figures = figures
        self._talk.track.finish(figures)
        if figures.tokens:
            self._talk.history.append((figures, writing.speculate))
        self._talk.writing = None
        if writing.shown:
            line = answer_line(figures, compared(figures, writing.speculate, *before)) if figures.tokens else ""
            self._stage.finish(line, reason, error)
        self._stage.changed()
        try:
            await writing.save_finished(self._talk.store, reason)
        except StoreError as problem:
            self._talk.unsaved.append((writing, reason))
            self._stage.say(f"An answer is not saved yet, which is tried again: {problem}", "error")
        await self._talk.go_on()

    def save_again(self) -> None:
        """Begin to save what could not be saved before; a store that is busy holds up nobody."""
        if self._talk.unsaved and (self._saving_again is None or self._saving_again.done()):
            self._saving_again = asyncio.get_running_loop().create_task(self._save_unsaved())

    async def _save_unsaved(self) -> None:
        unsaved = self._talk.unsaved
        try:
            while unsaved:
                writing, reason = unsaved[0]
                await writing.save_finished(self._talk.store, reason)
                unsaved.remove((writing, reason))
            self._stage.say("What was not saved is saved now.")
        except NotStored:
            # It was deleted meanwhile.
            unsaved.pop(0)
        except StoreError:
            # It was said once; the next time is soon.
            return

    def _not_saved(self, error: StoreError) -> None:
        self._stage.say(f"This answer is not saved: {error}", "error")
