"""Models and past conversations in the command palette."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from textual.command import Hit, Hits, Provider

from specchat.chat.amounts import size
from specchat.chat.conversation import Summary, one_line
from specchat.chat.store_file import StoreError
from specchat.tui.actions import BY_ID
from specchat.tui.faults import expected
from specchat.tui.shelf import ShelfRow

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_CHATS: Final = 500
"""The latest; the list of conversations finds older ones, by any of their words."""


class Jumps(Provider):
    """Opens a model or a conversation by its name."""

    _models: Sequence[ShelfRow] = ()
    _chats: Sequence[Summary] = ()

    async def startup(self) -> None:
        """Read the names once; what is wrong with a list is said where the list is shown."""
        chat = self._chat
        try:
            self._models = await asyncio.to_thread(chat.shelf.rows)
        except expected():
            self._models = ()
        try:
            self._chats = await asyncio.to_thread(chat.store.chats, _CHATS)
        except StoreError:
            self._chats = ()

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher, present = self.matcher(query), self._chat.talk.chat
        for row in self._models:
            name = f"Model: {row.name}"
            if score := matcher.match(f"{name} {row.id}"):
                about = "open it" if row.here else f"fetch it{f' ({size(row.size)})' if row.size else ''}"
                doing = partial(self._chat.perform, BY_ID["model"], row.id)
                yield Hit(score, matcher.highlight(name), doing, text=name, help=about)
        for summary in self._chats:
            if present is not None and summary.id == present.id:
                continue
            name = f"Conversation: {one_line(summary.title) or 'untitled'}"
            if score := matcher.match(name):
                about = f"{summary.messages} messages · {one_line(summary.model)}"
                yield Hit(score, matcher.highlight(name), partial(self._open, summary.id), text=name, help=about)

    @property
    def _chat(self) -> ChatApp:
        return cast("ChatApp", self.app)

    async def _open(self, chat_id: str) -> None:
        await self._chat.attempt(self._chat.talk.open(chat_id))
        self._chat.prompt.focus()
