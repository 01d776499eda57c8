"""What the user said."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.content import Content

from specchat.chat.reading import about_unread
from specchat.chat.text import visible
from specchat.tui.transcript.growing_lines import GrowingLines
from specchat.tui.transcript.line import EMPTY, Line, wrapped
from specchat.tui.transcript.line_view import LineView
from specchat.tui.transcript.records import UserRecord
from specchat.tui.transcript.shown import shown

LONGEST = 30
"""Rows of a message that are shown; a pasted book is not to bury the answer."""


class UserMessage(LineView):
    """The user's own words, as they were typed: no Markdown, no markup."""

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("user_message.tcss").read_text(encoding="utf-8")

    def __init__(self, record: UserRecord) -> None:
        super().__init__()
        self.record = record
        self._whole = False
        self._text = GrowingLines(Content("  "))
        self._text.append(shown(record.text))
        self._summary = GrowingLines(Content.styled("│ ", ".mark"))
        if record.unread is not None:
            self._summary.append(shown(record.unread.summary), ".quiet")

    def copy_text(self) -> str:
        """The message without control characters."""
        return visible(self.record.text)

    def show_branch(self, which: int, of: int) -> None:
        """Show which of how many siblings this is."""
        self.record.branch = (which, of)
        self.changed()

    def show_whole(self, whole: bool) -> None:
        """Show a long message to its end, or its beginning only."""
        self._whole = whole
        self.changed()

    def on_click(self) -> None:
        """A click on a long message unfolds it."""
        if not self._whole and len(self._text.lines(self.content_size.width)) > LONGEST:
            self.show_whole(True)

    def lay_out(self, width: int) -> list[Line]:
        """Where the model begins to read; the text after a prompt sign, the names of its files, its place."""
        return [*self._unread_lines(width), *self._own_lines(width)]

    def _unread_lines(self, width: int) -> list[Line]:
        unread = self.record.unread
        if unread is None:
            return []
        about = about_unread(unread.count, unread.left_out, summary=bool(unread.summary), missed=unread.missed)
        words = Content.styled(f"─── {about}", ".warning")
        return [*wrapped(words, width), *(self._summary.lines(width) if unread.summary else []), EMPTY]

    def _own_lines(self, width: int) -> list[Line]:
        rows = self._text.lines(width) or [Line(Content(""), Content("  "))]
        hidden = 0 if self._whole else max(0, len(rows) - LONGEST)
        lines = rows[: len(rows) - hidden]
        lines[0] = Line(lines[0].content, Content.styled("❯ ", ".prompt-sign"))
        notes = [f"… {hidden} more lines"] if hidden else []
        notes += [f"[file {shown(name)}]" for name in self.record.attached]
        which, of = self.record.branch
        notes += [f"‹ {which}/{of} ›"] if of > 1 else []
        for note in notes:
            lines.extend(wrapped(Content.styled(note, ".quiet"), width, Content("  "), Content("  ")))
        return lines
