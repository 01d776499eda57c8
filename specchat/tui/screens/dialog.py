"""What all screens over the chat share: a framed box with a title, closed by Esc."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A box over the chat; Esc closes it without a result."""

    CSS_PATH = "dialog.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "close")]
    title_text: str = ""
    hint: str = "esc close"

    def compose(self) -> ComposeResult:
        """The box, with what `body` yields inside."""
        with Vertical(id="box") as box:
            box.border_title = self.title_text.replace("[", "\\[")
            yield from self.body()
            yield Static(self.hint, id="hint", markup=False)

    def body(self) -> ComposeResult:
        """The widgets inside the box."""
        raise NotImplementedError

    def action_close(self) -> None:
        """Close without a result."""
        self.dismiss(None)
