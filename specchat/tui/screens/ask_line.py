"""Asks for one line of text."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Input

from specchat.tui.screens.dialog import Dialog


class AskLine(Dialog[str]):
    """One line, filled with what there is; enter takes it."""

    hint = "enter keep   esc leave it"

    def __init__(self, title: str, value: str = "") -> None:
        super().__init__()
        self.title_text = title
        self._value = value

    def body(self) -> ComposeResult:
        """The line."""
        yield Input(self._value, id="line")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what was written; nothing written is no answer."""
        self.dismiss(event.value.strip() or None)
