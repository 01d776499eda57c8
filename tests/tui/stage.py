"""An app of a few widgets, to try them in."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from textual import on
from textual.app import App
from textual.message import Message
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from specchat.tui.prompt import PromptArea
from specchat.tui.transcript import Transcript


class Stage(App[None]):
    """Shows the widgets it is given and keeps what they ask for."""

    CSS = "Screen { layout: vertical; }"

    def __init__(self, *widgets: Widget) -> None:
        super().__init__()
        self._given = widgets
        self.asked: list[Message] = []

    def compose(self) -> Iterable[Widget]:
        return self._given

    @on(Transcript.Selected)
    @on(Transcript.CopyRequested)
    @on(Transcript.EditRequested)
    @on(Transcript.SiblingRequested)
    @on(PromptArea.Submitted)
    @on(PromptArea.FilesDropped)
    def keep(self, message: Message) -> None:
        self.asked.append(message)

    def strips(self) -> list[Strip]:
        """The rows of the screen as they are drawn."""
        return self.screen._compositor.render_strips()

    def text(self) -> str:
        """What can be read on the screen, but for its last column, where the scroll bar is."""
        return "\n".join(strip.text[:-1].rstrip() for strip in self.strips())

    def misfits(self) -> list[str]:
        """Rows that are not exactly as wide as the screen."""
        width = self.size.width
        return [strip.text for strip in self.strips() if sum(cell_len(part.text) for part in strip) != width]


async def settle(pilot: Pilot[None]) -> None:
    """Wait until what was added is on the screen, the pause between two writes included."""
    await pilot.pause(0.12)
    await pilot.pause()
