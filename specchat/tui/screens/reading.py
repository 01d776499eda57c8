"""Shows a text to read: figures, settings, the system prompt."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from specchat.tui.screens.dialog import Dialog


class Reading(Dialog[None]):
    """A scrolling text; nothing in it is markup."""

    def __init__(self, title: str, text: str | Content) -> None:
        super().__init__()
        self.title_text = title
        self._text = text

    def body(self) -> ComposeResult:
        """The text."""
        with VerticalScroll(id="text"):
            yield Static(self._text, markup=False)

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self.query_one("#text").focus()
