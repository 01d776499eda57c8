"""The conversation: its messages, a cursor among them, and what the reader asks to be done with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from specchat.tui.transcript.answer import Answer
from specchat.tui.transcript.message_list import MessageList, Shown
from specchat.tui.transcript.records import Record
from specchat.tui.transcript.user_message import UserMessage


class Transcript(MessageList):
    """Messages of one conversation, with a cursor.

    Keys when it has the focus: j/k move the cursor, g/G go to the first and last message.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_previous", "Previous message", show=False),
        Binding("j", "cursor_next", "Next message", show=False),
        Binding("g", "cursor_first", "First message", show=False, id="transcript.first"),
        Binding("G,end", "cursor_last", "Last message", show=False, id="transcript.last"),
        Binding("y", "copy_message", "Copy message", show=False, id="transcript.copy"),
        Binding("c", "copy_code", "Copy code block", show=False, id="transcript.copy_code"),
        Binding("e", "edit_message", "Edit and resend", show=False, id="transcript.edit"),
        Binding("left_square_bracket", "sibling(-1)", "Previous branch", show=False, id="transcript.branch_previous"),
        Binding("right_square_bracket", "sibling(1)", "Next branch", show=False, id="transcript.branch_next"),
        Binding("space", "unfold", "Unfold reasoning", show=False, id="transcript.unfold"),
    ]

    @dataclass
    class Selected(Message):
        """The cursor is on another message, or on none."""

        transcript: Transcript
        node_id: str | None

    @dataclass
    class CopyRequested(Message):
        """Text is to go to the clipboard: a whole message, or code block `number` of `count`."""

        transcript: Transcript
        node_id: str
        text: str
        number: int = 0
        count: int = 0

    @dataclass
    class EditRequested(Message):
        """What the user said is to be changed and sent again."""

        transcript: Transcript
        node_id: str
        text: str

    @dataclass
    class SiblingRequested(Message):
        """Another branch is wanted: the next (1) or previous (-1) sibling of a message."""

        transcript: Transcript
        node_id: str
        step: int

    def __init__(self, *, id: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id=id, clock=clock)
        self._cursor: int | None = None
        self._code_number = 0
        self._overlay = False

    def load(self, records: Iterable[Record], at: str | None = None) -> None:
        """Show another conversation: its end first and no cursor, or the message `at` with the cursor on it."""
        self._cursor = None
        super().load(records, at)
        place = self.place_of(at)
        if place is not None:
            self._select(place)

    def complete(self, records: Iterable[Record]) -> None:
        """Show all of the conversation of which a part is shown; what is in sight stays, and so does the cursor."""
        whole, part = list(records), [record.node_id for record in self._records]
        ids = [record.node_id for record in whole]
        shift = ids.index(part[0]) if part and part[0] in ids else None
        if shift is None or ids[shift : shift + len(part)] != part:
            selected = self.selected
            self.load(whole, None if selected is None else selected.node_id)
            return
        at_last = self._cursor is not None and self._cursor + 1 == len(part)
        if self._cursor is not None:
            self._cursor += shift
        self.widen(whole, shift)
        if at_last and self._following:
            self._select(len(whole) - 1, scroll=False)

    def dress(self, index: int, widget: Shown) -> None:
        """Mark the message at the cursor, and show in answers who wrote what while that is wanted."""
        widget.set_class(index == self._cursor, "-at-cursor")
        if self._overlay and isinstance(widget, Answer):
            widget.show_provenance(True)

    def show_provenance(self, shown: bool) -> None:
        """Show in every answer, those to come too, where each token came from; or no longer."""
        self._overlay = shown
        for widget in self._widgets.values():
            if isinstance(widget, Answer):
                widget.show_provenance(shown)

    @property
    def provenance_shown(self) -> bool:
        """Whether answers show where each token came from."""
        return self._overlay

    @property
    def selected(self) -> Record | None:
        """The message at the cursor."""
        return None if self._cursor is None else self._records[self._cursor]

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the message that was clicked, or show more."""
        widget = event.widget
        if widget is self._earlier:
            self._extend_start()
        elif widget is self._later:
            self._extend_end()
        for index, shown in self._widgets.items():
            if shown is widget:
                self._select(index, scroll=False)

    # The cursor

    def _select(self, index: int | None, *, scroll: bool = True) -> None:
        if self._cursor in self._widgets:
            self._widgets[self._cursor].remove_class("-at-cursor")
        self._cursor = index
        self._code_number = 0
        if index is not None:
            if not self._window.holds(index):
                self._window.around(index)
                self._show_window()
            widget = self._widgets[index]
            widget.add_class("-at-cursor")
            if scroll:
                self._following = False
                self.release_anchor()
                self.call_after_refresh(
                    self.scroll_to_widget, widget, animate=False, top=index + 1 < len(self._records)
                )
        self.post_message(self.Selected(self, None if index is None else self._records[index].node_id))

    def put_cursor(self, node_id: str) -> None:
        """Put the cursor on a message, if it is one of the conversation's; what is in sight stays."""
        place = self.place_of(node_id)
        if place is not None:
            self._select(place, scroll=not self._window.holds(place))

    def go_to(self, node_id: str) -> None:
        """Put the cursor on a message, if it is one of the conversation's, and bring it into sight."""
        place = self.place_of(node_id)
        if place is not None:
            self._select(place)

    def scroll_from_afar(self, pages: int) -> None:
        """Scroll by a page up (-1) or down (1), or go to the end and follow it (0)."""
        if pages == 0:
            self.go_to_end()
        elif pages < 0:
            self.action_page_up()
        else:
            self.action_page_down()

    def leave_cursor(self) -> None:
        """Take the cursor off and follow the end again."""
        self._select(None)
        self.go_to_end()

    def action_cursor_previous(self) -> None:
        """Go to the message before."""
        if self._records:
            self._select(len(self._records) - 1 if self._cursor is None else max(0, self._cursor - 1))

    def action_cursor_next(self) -> None:
        """Go to the message after; after the last one the cursor is left."""
        if self._cursor is None or self._cursor + 1 >= len(self._records):
            self.leave_cursor()
        else:
            self._select(self._cursor + 1)

    def action_cursor_first(self) -> None:
        """Go to the first message."""
        if self._records:
            self._select(0)

    def action_cursor_last(self) -> None:
        """Go to the last message and follow it."""
        if self._records:
            self.go_to_end()
            self._select(len(self._records) - 1, scroll=False)

    # What can be done with a message

    def _chosen(self, kind: type[Shown] | None = None) -> Shown | None:
        """The widget at the cursor, or the newest one of a kind if there is no cursor."""
        if self._cursor is not None:
            return self._widgets.get(self._cursor)
        newest = sorted(self._widgets.items(), reverse=True)
        return next((widget for _, widget in newest if kind is None or isinstance(widget, kind)), None)

    def action_copy_message(self) -> None:
        """Ask for the message at the cursor, or the newest answer, to be copied."""
        widget = self._chosen(Answer)
        if widget is not None:
            self.post_message(self.CopyRequested(self, widget.record.node_id, widget.copy_text()))

    def action_copy_code(self) -> None:
        """Ask for a code block to be copied: the first, and at every further press the next."""
        widget = self._chosen(Answer)
        blocks = widget.code_blocks() if isinstance(widget, Answer) else []
        if widget is not None and blocks:
            number = self._code_number % len(blocks)
            self._code_number = number + 1
            text = blocks[number]
            self.post_message(self.CopyRequested(self, widget.record.node_id, text, number + 1, len(blocks)))

    def on_answer_code_clicked(self, event: Answer.CodeClicked) -> None:
        """Ask for the code block that was clicked to be copied."""
        event.stop()
        blocks = event.answer.code_blocks()
        if event.place < len(blocks):
            number = event.place + 1
            node_id, text = event.answer.record.node_id, blocks[event.place]
            self.post_message(self.CopyRequested(self, node_id, text, number, len(blocks)))

    def action_edit_message(self) -> None:
        """Ask for what the user said to be edited: the question at the cursor or above it, else the newest."""
        last = len(self._records) if self._cursor is None else self._cursor
        above = (widget for place, widget in sorted(self._widgets.items(), reverse=True) if place <= last)
        widget = next((widget for widget in above if isinstance(widget, UserMessage)), None)
        if widget is not None:
            self.post_message(self.EditRequested(self, widget.record.node_id, widget.copy_text()))

    def action_sibling(self, step: int) -> None:
        """Ask for another branch at the message at the cursor, or at the newest one that has any."""
        if self._cursor is not None:
            widget = self._widgets.get(self._cursor)
        else:
            newest = (widget for _, widget in sorted(self._widgets.items(), reverse=True))
            widget = next((widget for widget in newest if widget.record.branch[1] > 1), None)
        if widget is not None and widget.record.branch[1] > 1:
            self.post_message(self.SiblingRequested(self, widget.record.node_id, step))

    def action_unfold(self) -> None:
        """Unfold what is folded in the message at the cursor, or fold it again."""
        widget = self._chosen(Answer)
        if isinstance(widget, Answer):
            widget.show_thoughts(not widget.thoughts_shown)
        elif widget is not None:
            widget.show_whole(True)
