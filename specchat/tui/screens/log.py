"""The logs, their ends first."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from specchat.tui.screens.reading import Reading
from specchat.worker.logs import end_of, logs

_LINES: Final = 200


class LogScreen(Reading):
    """What llama.cpp and the engine wrote last."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("r", "read", "read again")]
    hint = "r read again   esc close"

    def __init__(self) -> None:
        super().__init__("Logs", "")

    def on_mount(self) -> None:
        """Read them."""
        super().on_mount()
        self.action_read()

    def action_read(self) -> None:
        """Read them again, and go to the end."""
        self.query_one("#text Static", Static).update(log_text())
        scroll = self.query_one("#text", VerticalScroll)
        self.call_after_refresh(scroll.scroll_end, animate=False)


def log_text() -> Content:
    """The end of each log under its name and place."""
    parts = []
    for name, path in logs().items():
        try:
            lines = end_of(path, _LINES)
        except OSError as error:
            lines = [f"It can't be read: {error.strerror}."]
        head = Content.assemble((name, "bold $secondary"), (f"  {path}", "$foreground-muted"))
        parts.append(Content("\n").join([head, Content("\n".join(lines) or "nothing")]))
    return Content("\n\n").join(parts)
