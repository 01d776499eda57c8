"""A box over the prompt: no model is open, and ways to open one."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

RELOAD, SMALLER, PLAIN, OTHER = "reload", "smaller", "plain", "other"
_OFFERS: Final = (
    (RELOAD, "Load again"),
    (SMALLER, "With half the context"),
    (PLAIN, "Without drafting"),
    (OTHER, "Another model"),
)


class Notice(Vertical):
    """Says why, and offers; it never takes the focus by itself."""

    ACTIONS: ClassVar[dict[str, tuple[str, str]]] = {
        RELOAD: ("reload", ""),
        SMALLER: ("reload", "smaller"),
        PLAIN: ("reload", "plain"),
        OTHER: ("model", ""),
    }
    """The action of the registry behind each offer, and its argument."""

    def compose(self) -> ComposeResult:
        """The sentence, and a button an offer."""
        yield Static(id="why", markup=False)
        with Horizontal(id="offers"):
            for id, words in _OFFERS:
                yield Button(Content(words), id=id, compact=True)

    def on_mount(self) -> None:
        """Nothing to say yet."""
        self.display = False

    def offer(self, sentence: str, *, reload: bool) -> None:
        """Say why nothing is open; `reload`: whether there is something to load again."""
        self.query_one("#why", Static).update(Content(sentence))
        for id in (RELOAD, SMALLER, PLAIN):
            self.query_one(f"#{id}").display = reload
        self.display = True

    def withdraw(self) -> None:
        """Be gone; the focus goes on."""
        if self.has_focus_within:
            self.screen.focus_next()
        self.display = False

    @on(Button.Pressed)
    async def take(self, event: Button.Pressed) -> None:
        """Do what was offered."""
        event.stop()
        action, argument = self.ACTIONS[event.button.id or RELOAD]
        await self.app.run_action(f"app.act({action!r}, {argument!r})")
