"""The prompt: it grows with its text, and pasting never sends."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.document._document import EditResult, Location
from textual.document._edit import Edit
from textual.geometry import Offset
from textual.message import Message
from textual.widgets import TextArea

from specchat.chat.text import visible
from specchat.tui.prompt.history import MemoryHistory, PromptHistory, Walk
from specchat.tui.prompt.pasted import FOLDED_FROM, Pasted

Completion = Callable[[str, int], tuple[int, str] | None]
"""Given the text and a position in it: from where to replace up to the position, and by what; None for nothing."""


class PromptArea(TextArea):
    """Enter sends; ctrl+j, shift+enter and alt+enter begin a line; up and down walk the history at the ends.

    What was sent stays until the app calls `clear_prompt`: a refused text is never lost.
    """

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("prompt_area.tcss").read_text(encoding="utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="prompt.send", show=False, priority=False),
        Binding("ctrl+j,shift+enter,alt+enter", "newline", "New line", id="prompt.newline", show=False),
        Binding("pageup", "scroll_transcript(-1)", "Scroll up", show=False),
        Binding("pagedown", "scroll_transcript(1)", "Scroll down", show=False),
        Binding("tab", "complete", "Complete", id="prompt.complete", show=False),
    ]

    @dataclass
    class Submitted(Message):
        """The user wants this sent, pasted text in full. Call `clear_prompt` when it is accepted."""

        prompt: PromptArea
        text: str

    @dataclass
    class ScrollRequested(Message):
        """What is above the prompt is to be scrolled by `pages` (-1 or 1), or to its end (0)."""

        prompt: PromptArea
        pages: int

    @dataclass
    class FilesDropped(Message):
        """Nothing but paths of files was pasted, as terminals do when a file is dropped on them."""

        prompt: PromptArea
        paths: tuple[Path, ...]

    def __init__(
        self,
        *,
        history: PromptHistory | None = None,
        complete: Completion | None = None,
        placeholder: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__(
            id=id,
            soft_wrap=True,
            tab_behavior="focus",
            highlight_cursor_line=False,
            placeholder=Content(placeholder),
            compact=True,
        )
        self._pasted = Pasted()
        self._sent = history if history is not None else MemoryHistory()
        self._complete = complete
        self._walk: Walk | None = None
        self._attached: tuple[str, ...] = ()

    # What the prompt holds

    @property
    def full_text(self) -> str:
        """The text with what was pasted in full."""
        return self._pasted.expanded(self.text)

    def set_text(self, text: str) -> None:
        """Replace the text, cursor at its end; undo brings the old one back."""
        self._walk = None
        self._replace_all(visible(text))

    def clear_prompt(self, sent: str | None = None, *, keep: bool = True) -> None:
        """Empty the prompt, but for what was typed after `sent`; it is kept in the history unless `keep` is false.

        The files that are shown stay: they are the app's.
        """
        text = self.full_text
        typed_since = ""
        if sent is not None and text.startswith(sent):
            text, typed_since = sent, text[len(sent) :]
        if keep and text.strip():
            self._sent.add(text)
        self._walk = None
        self._pasted.forget()
        self.load_text(visible(typed_since))
        self.move_cursor(self.document.end)

    def set_attachments(self, names: Iterable[str]) -> None:
        """Show the files that go with the prompt, as `[file name.txt]` above the frame's bottom."""
        self._attached = tuple(names)
        chips = "  ".join(f"[file {visible(name).replace(chr(10), ' ')}]" for name in self._attached)
        self.border_subtitle = Content(chips) if chips else None

    @property
    def attachments(self) -> tuple[str, ...]:
        """The names that are shown."""
        return self._attached

    # Sending and lines

    def action_submit(self) -> None:
        """Send."""
        text = self.full_text
        if text.strip() or self._attached:
            self.post_message(self.Submitted(self, text))

    def action_newline(self) -> None:
        """Begin a line."""
        self._replace_via_keyboard("\n", *self.selection)
        self.scroll_cursor_visible()

    async def _on_key(self, event: events.Key) -> None:
        # A key with a binding would bubble up to the app and be acted on after letters that were typed behind it.
        active = None if event.is_printable else self.screen.active_bindings.get(event.key)
        if active is not None and active.node is self and await self.app.run_action(active.binding.action, self):
            event.stop()
            event.prevent_default()
        elif event.key == "enter":
            # TextArea's own handler, which Textual calls next, would make it a line end.
            event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        """Insert what was pasted, lines and all; nothing in it is a key."""
        event.stop()
        event.prevent_default()
        text = visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        if not text:
            return
        paths = dropped_files(text)
        if paths:
            self.post_message(self.FilesDropped(self, paths))
            return
        if len(text) > FOLDED_FROM:
            text = self._pasted.fold(text, self.text)
        if result := self._replace_via_keyboard(text, *self.selection):
            self.move_cursor(result.end_location)

    # Pasted text

    def edit(self, edit: Edit) -> EditResult:
        """Edit the text. An edit that walks away from a history entry ends the walk."""
        self._walk = None
        return super().edit(edit)

    def _delete_via_keyboard(self, start: Location, end: Location) -> EditResult | None:
        return None if self._unfold(start, end) else super()._delete_via_keyboard(start, end)

    def _replace_via_keyboard(self, insert: str, start: Location, end: Location) -> EditResult | None:
        return None if self._unfold(start, end) else super()._replace_via_keyboard(insert, start, end)

    def _unfold(self, start: Location, end: Location) -> bool:
        """Where an edit would cut a label of pasted text, show that text instead of editing."""
        start, end = min(start, end), max(start, end)
        for row in {start[0], end[0]}:
            line = self.document.get_line(row)
            first = start[1] if row == start[0] else 0
            last = end[1] if row == end[0] else len(line)
            cut = self._pasted.at(line, first, last)
            if cut is not None:
                self.edit(Edit(cut[2], (row, cut[0]), (row, cut[1]), maintain_selection_offset=False))
                return True
        return False

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        """Scroll to the cursor, if it is in the text: while Textual undoes a long paste, it is still behind its end."""
        if self.cursor_location[0] >= self.wrapped_document.document.line_count:
            return Offset(0, 0)
        return super().scroll_cursor_visible(center, animate)

    # History and completion

    def action_cursor_up(self, select: bool = False) -> None:
        """Go up a row; from the first, to an older prompt that begins with what was typed."""
        if select or self.wrapped_row > 0 or not self._step(1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Go down a row; from the last, to a newer prompt."""
        last = self.wrapped_document.height - 1
        if select or self.wrapped_row < last or self._walk is None or not self._step(-1):
            super().action_cursor_down(select)

    def action_cursor_line_end(self, select: bool = False) -> None:
        """Go to the end of the row; from there, to the end of the conversation, which is followed again."""
        before = self.cursor_location
        super().action_cursor_line_end(select)
        if not select and self.cursor_location == before:
            self.post_message(self.ScrollRequested(self, 0))

    def action_scroll_transcript(self, pages: int) -> None:
        """Scroll what is above: the prompt itself is never longer than a few rows."""
        self.post_message(self.ScrollRequested(self, pages))

    @property
    def wrapped_row(self) -> int:
        """The row of the cursor, long lines counted as they are wrapped."""
        return self.wrapped_document.location_to_offset(self.cursor_location).y

    def _step(self, by: int) -> bool:
        walk = self._walk or Walk(self._sent.entries(), self.full_text)
        text = walk.step(by)
        if text is None:
            return False
        if len(text) > FOLDED_FROM:
            text = self._pasted.fold(text, "")
        self._replace_all(text)
        self._walk = walk
        return True

    def _replace_all(self, text: str) -> None:
        self.edit(Edit(text, (0, 0), self.document.end, maintain_selection_offset=False))
        self.move_cursor(self.document.end)

    def action_complete(self) -> None:
        """Complete the word before the cursor, if the app knows how; else go to the next widget."""
        if self._complete is None:
            self.screen.focus_next()
            return
        position = len(self.get_text_range((0, 0), self.cursor_location))
        found = self._complete(self.text, position)
        if found is None:
            return
        before = self.text[: found[0]]
        start = (before.count("\n"), len(before) - before.rfind("\n") - 1)
        self.edit(Edit(visible(found[1]), start, self.cursor_location, maintain_selection_offset=False))


def dropped_files(text: str) -> tuple[Path, ...]:
    """The files whose absolute paths `text` consists of, as terminals write dropped files; none if it is other text."""
    if len(text) > 4096 or not text.lstrip().startswith(("/", "'/", '"/', "file:///")):
        return ()
    try:
        words = shlex.split(text)
        paths = [Path(word.removeprefix("file://")) for word in words]
        return tuple(paths) if paths and all(path.is_file() for path in paths) else ()
    except (ValueError, OSError):
        return ()
