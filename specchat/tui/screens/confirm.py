"""Asks before something that can't be undone."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from specchat.tui.screens.dialog import Dialog


class Confirm(Dialog[bool]):
    """A question, and a word for yes; no is where the cursor stands."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "yes", "yes"), Binding("n", "close", "no")]

    def __init__(self, title: str, question: str, yes: str, no: str = "Leave it as it is") -> None:
        super().__init__()
        self.title_text = title
        self.hint = "y yes   n or esc no"
        self._question, self._yes, self._no = question, yes, no

    def body(self) -> ComposeResult:
        """The question, and the two answers."""
        yield Static(self._question, id="question", markup=False)
        yield OptionList(Option(self._no, id="no"), Option(self._yes, id="yes"), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter on one of the two."""
        self.dismiss(event.option_id == "yes")

    def action_yes(self) -> None:
        """The user means it."""
        self.dismiss(True)
