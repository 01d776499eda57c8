"""Showing a stored conversation: of a long one a part at once, and all of it as soon as it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import takewhile
from typing import Final

from specchat.chat.conversation import Node
from specchat.chat.reading import cut_in
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.tui.stage import Stage
from specchat.tui.threads import records_of, versions
from specchat.tui.transcript.records import Record

_AT_ONCE: Final = 100
"""Messages that are read before anything is shown, of a branch that has more."""
_AFTER_PAINT_S: Final = 0.3
"""The thread that reads the rest would take turns with the painting of what is shown."""
_LOOK_AGAIN_S: Final = 0.5


class Opening:
    """Shows branches. `busy`: whether an answer is being written, which then must stay where it is."""

    def __init__(self, store: Store, stage: Stage, busy: Callable[[], bool]) -> None:
        self._store, self._stage, self._busy = store, stage, busy
        self._rest: asyncio.Task[None] | None = None
        self.at_end = True
        """What is shown reaches to the end of the branch, so that more can be added to it."""

    async def show(self, chat_id: str, before: int | None = None, *, at: int | None = None) -> None:
        """Show the current branch, or what comes in it before a message; raises StoreError.

        Of a long one the end first or, with the cursor there, what stands around the message `at`.
        """
        self.forget()
        ids = self._store.thread_ids(chat_id)
        cursor = None if at is None else str(at)
        if len(ids) < _AT_ONCE:
            self._stage.load(await asyncio.to_thread(self._all, chat_id, before), cursor)
            return
        place = ids.index(at) if at is not None and at in ids else len(ids) - 1
        first = max(0, min(place - _AT_ONCE // 2, len(ids) - _AT_ONCE))
        some = self._store.some(ids[first : first + _AT_ONCE])
        shown = self._store.versions([node.id for node in some])
        cut = cut_in(ids, self._store.cuts(chat_id))
        self._stage.load(records_of(_until(some, before), shown, cut, ids), cursor)
        self.at_end = first + len(some) == len(ids)
        self._rest = asyncio.get_running_loop().create_task(self._show_all(chat_id, before))

    def forget(self) -> None:
        """Another conversation is shown: the rest of this one is not needed."""
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None
        self.at_end = True

    def _all(self, chat_id: str, before: int | None) -> list[Record]:
        nodes, thread = self._store.nodes(chat_id), self._store.thread(chat_id)
        cut = cut_in([node.id for node in thread], self._store.cuts(chat_id))
        return records_of(_until(thread, before), versions(nodes), cut)

    async def _show_all(self, chat_id: str, before: int | None) -> None:
        await asyncio.sleep(_AFTER_PAINT_S)
        while True:
            newest = self._store.thread(chat_id, last=1)
            try:
                records = await asyncio.to_thread(self._all, chat_id, before)
            except StoreError as error:
                self._stage.say(f"Only a part of this conversation is shown: {error}", "error")
                return
            # A question that was asked meanwhile is not among them.
            if not self._busy() and self._store.thread(chat_id, last=1) == newest:
                self._stage.complete(records)
                self.at_end = True
                return
            await asyncio.sleep(_LOOK_AGAIN_S)


def _until(thread: list[Node], before: int | None) -> list[Node]:
    return list(takewhile(lambda node: node.id != before, thread))
