"""A box over the prompt: no model is open, or the conversation no longer fits; and ways out."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from specchat.chat.amounts import size
from specchat.tui.keymap import Keys, shown
from specchat.tui.shelf import Offer, Shelf

FETCH, RELOAD, SMALLER, PLAIN, OTHER = "fetch", "reload", "smaller", "plain", "other"
DROP, SUMMARISE, LARGER, NEW = "drop", "summarise", "larger", "new"
_OF_THE_ROOM: Final = frozenset({DROP, SUMMARISE, LARGER, NEW})
_OFFERS: Final = (
    (DROP, "Leave them unread"),
    (SUMMARISE, "Summarise them"),
    (LARGER, "Larger context"),
    (NEW, "New chat"),
    (FETCH, "Fetch"),
    (RELOAD, "Load again"),
    (SMALLER, "With half the context"),
    (PLAIN, "Without drafting"),
    (OTHER, "Another model"),
)


class Notice(Vertical):
    """Says why, and offers; it never takes the focus by itself."""

    ACTIONS: ClassVar[dict[str, tuple[str, str]]] = {
        FETCH: ("reload", ""),
        RELOAD: ("reload", ""),
        SMALLER: ("reload", "smaller"),
        PLAIN: ("reload", "plain"),
        OTHER: ("model", ""),
        DROP: ("trim", "drop"),
        SUMMARISE: ("trim", "summarise"),
        LARGER: ("reload", "larger"),
        NEW: ("new", ""),
    }
    """The action of the registry behind each offer, and its argument."""

    def __init__(self, shelf: Shelf, keys: Keys, *, id: str) -> None:
        super().__init__(id=id)
        self._shelf, self._keys = shelf, keys
        self.about_room = False
        """What is said is that the conversation no longer fits."""
        self.to_fetch: Offer | None = None
        """What is offered in the place of loading again: nothing of that kind is here."""

    def compose(self) -> ComposeResult:
        """The sentence, and a button an offer."""
        yield Static(id="why", markup=False)
        with Horizontal(id="offers"):
            for id, words in _OFFERS:
                yield Button(Content(words), id=id, compact=True)

    def on_mount(self) -> None:
        """Nothing to say yet."""
        self.display = False

    def offer(self, sentence: str, *, reload: bool, wanted: str | None = None) -> None:
        """Say why nothing is open; `reload`: whether there is something to load again.

        `wanted` is a model that is not here, so that fetching it is offered instead; empty: the best that fits.
        """
        self.workers.cancel_node(self)
        self.to_fetch = None
        self.query_one("#why", Static).update(Content(sentence))
        self._show(fetch=False, reload=reload and wanted is None)
        self._stand(about_room=False)
        if wanted is not None:
            self._look_for(wanted)

    def offer_room(self, sentence: str, messages: int, *, summarise: bool) -> None:
        """Say that the conversation no longer fits; 0 messages: leaving older ones unread would not help."""
        self.workers.cancel_node(self)
        self.query_one("#why", Static).update(Content(sentence))
        key = f" · {shown(self._keys['trim'][0])}" if self._keys.get("trim") else ""
        self.query_one(f"#{DROP}", Button).label = Content(f"Leave {messages:,} unread{key}")
        hopeless = ({DROP} if not messages else set()) | ({SUMMARISE} if not messages or not summarise else set())
        self._offer_only(_OF_THE_ROOM - hopeless)
        self._stand(about_room=True)

    def _show(self, *, fetch: bool, reload: bool) -> None:
        offered = {OTHER, *((RELOAD, SMALLER, PLAIN) if reload else ()), *((FETCH,) if fetch else ())}
        self._offer_only(offered)

    def _offer_only(self, offered: Collection[str]) -> None:
        for id, _ in _OFFERS:
            self.query_one(f"#{id}").display = id in offered

    def _stand(self, *, about_room: bool) -> None:
        self.about_room, self.display = about_room, True
        self.set_class(about_room, "-room")

    @work(exclusive=True)
    async def _look_for(self, wanted: str) -> None:
        try:
            self.to_fetch = await asyncio.to_thread(_found, self._shelf, wanted)
        except Exception:  # what is wrong with the list is said where the list is shown
            self.to_fetch = None
        if self.to_fetch is None:
            self._show(fetch=False, reload=bool(wanted))
            return
        key = f" · {shown(self._keys['reload'][0])}" if self._keys.get("reload") else ""
        self.query_one(f"#{FETCH}", Button).label = Content(fetch_words(self.to_fetch) + key)
        self._show(fetch=True, reload=False)

    def withdraw(self) -> None:
        """Be gone; the focus goes on."""
        self.workers.cancel_node(self)
        self.to_fetch, self.about_room = None, False
        if self.has_focus_within:
            self.screen.focus_next()
        self.display = False

    @on(Button.Pressed)
    async def take(self, event: Button.Pressed) -> None:
        """Do what was offered."""
        event.stop()
        action, argument = self.ACTIONS[event.button.id or RELOAD]
        await self.app.run_action(f"app.act({action!r}, {argument!r})")


def fetch_words(offer: Offer) -> str:
    """What pressing the button would fetch: Fetch Qwen3 8B (5.0 GB, Apache-2.0)."""
    terms = [size(offer.size)] if offer.size else []
    return f"Fetch {offer.name} ({', '.join([*terms, offer.licence or 'licence not known'])})"


def _found(shelf: Shelf, wanted: str) -> Offer | None:
    """What to fetch: the model that was wanted, else the best that fits; None where there is no such thing."""
    if not wanted:
        shelf.look_again(0)
        try:
            best = shelf.best()
        finally:
            shelf.rest()
        if best is None:
            return None
        wanted = best
    return None if shelf.find(wanted).here else shelf.offer(wanted)
