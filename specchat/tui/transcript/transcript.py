"""The conversation: messages under each other, the newest in sight until the reader scrolls."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widgets import Static

from specchat.tui.transcript.answer import Answer
from specchat.tui.transcript.records import AnswerRecord, Record, UserRecord
from specchat.tui.transcript.user_message import UserMessage
from specchat.tui.transcript.window import MOST, STEP, Window

Shown = UserMessage | Answer


class More(Static):
    """Says how many messages are not shown; a click shows some of them."""


class Transcript(VerticalScroll):
    """Messages of one conversation. Only some around those in sight are widgets, so its length costs nothing.

    Keys when it has the focus: j/k (or alt+down/alt+up) move the cursor, g/G go to the first and last message.
    """

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("transcript.tcss").read_text(encoding="utf-8")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k,alt+up", "cursor_previous", "Previous message", show=False, id="transcript.previous"),
        Binding("j,alt+down", "cursor_next", "Next message", show=False, id="transcript.next"),
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
        super().__init__(id=id)
        self._clock = clock
        self._records: list[Record] = []
        self._widgets: dict[int, Shown] = {}
        self._window = Window()
        self._earlier = More(markup=False, classes="-hidden")
        self._later = More(markup=False, classes="-hidden")
        self._cursor: int | None = None
        self._code_number = 0
        self._moving = False
        self._following = True

    # What the conversation is

    def load(self, records: Iterable[Record]) -> None:
        """Show another conversation, its end first."""
        self._records = list(records)
        self._cursor = None
        self._window.at_end(len(self._records))
        self.anchor(False)
        self._show_window()
        self._follow()

    def clear(self) -> None:
        """Show nothing."""
        self.load(())

    def add_user(self, node_id: str, text: str, attached: Sequence[str] = ()) -> UserMessage:
        """Add what the user said, and go to the end."""
        widget = self._add(UserRecord(node_id, text, attached=tuple(attached)))
        assert isinstance(widget, UserMessage)
        return widget

    def begin_answer(self, node_id: str, model: str) -> Answer:
        """Add an answer that is being written; it stays the same widget until it is finished."""
        widget = self._add(AnswerRecord(node_id, model))
        assert isinstance(widget, Answer)
        return widget

    @property
    def records(self) -> tuple[Record, ...]:
        """All messages, mounted or not, as they are now."""
        return tuple(self._records)

    @property
    def selected(self) -> Record | None:
        """The message at the cursor."""
        return None if self._cursor is None else self._records[self._cursor]

    def message(self, node_id: str) -> Shown | None:
        """The widget of a message, if it is in the window."""
        return next((widget for widget in self._widgets.values() if widget.record.node_id == node_id), None)

    @property
    def last_answer(self) -> Answer | None:
        """The newest answer that is a widget."""
        return next((w for _, w in sorted(self._widgets.items(), reverse=True) if isinstance(w, Answer)), None)

    # The window

    def _add(self, record: Record) -> Shown:
        if self._window.later:
            self._window.at_end(len(self._records))
            self._show_window()
        self._records.append(record)
        self._window.total = self._window.last = len(self._records)
        widget = self._made(len(self._records) - 1)
        self.mount(widget, before=self._later)
        self._follow()
        if self._window.last - self._window.first > MOST:
            self._cut_start(self._window.last - (MOST - STEP))
        return widget

    def _made(self, index: int) -> Shown:
        record = self._records[index]
        widget = Answer(record, self._clock) if isinstance(record, AnswerRecord) else UserMessage(record)
        widget.set_class(index == self._cursor, "-at-cursor")
        self._widgets[index] = widget
        return widget

    def _show_window(self) -> None:
        """Make the window's messages widgets, and no others."""
        for index in [index for index in self._widgets if not self._kept(index)]:
            self._widgets.pop(index).remove()
        missing = [index for index in range(self._window.first, self._window.last) if index not in self._widgets]
        for index in missing:
            after = min((other for other in self._widgets if other > index), default=None)
            self.mount(self._made(index), before=self._later if after is None else self._widgets[after])
        self._tell_more()

    def _kept(self, index: int) -> bool:
        widget = self._widgets[index]
        same = index < len(self._records) and self._records[index] is widget.record
        return same and self._window.holds(index)

    def _cut_start(self, first: int) -> None:
        self._window.first = first
        self._show_window()

    def _tell_more(self) -> None:
        for more, count, words in (
            (self._earlier, self._window.first, "↑ {} earlier"),
            (self._later, self._window.later, "↓ {} later"),
        ):
            more.set_class(count == 0, "-hidden")
            more.update(words.format(count))

    def _extend_start(self) -> None:
        """Show earlier messages; what is in sight stays where it is."""
        if self._moving or not self._window.first:
            return
        self._moving = True
        below = self.max_scroll_y - self.scroll_y
        self._window.first = max(0, self._window.first - STEP)
        if not self._is_writing:
            self._window.last = min(self._window.last, self._window.first + MOST)
        dropped = sum(self._widgets[i].outer_size.height for i in self._widgets if i >= self._window.last)
        self._show_window()

        def settle() -> None:
            self.scroll_to(y=self.max_scroll_y - below + dropped, animate=False)
            self._moving = False

        self.call_after_refresh(settle)

    def _extend_end(self) -> None:
        if self._moving or not self._window.later:
            return
        self._moving = True
        above = self.scroll_y
        self._window.last = min(self._window.total, self._window.last + STEP)
        self._window.first = max(self._window.first, self._window.last - MOST)
        dropped = sum(self._widgets[i].outer_size.height for i in self._widgets if i < self._window.first)
        self._show_window()

        def settle() -> None:
            self.scroll_to(y=above - dropped, animate=False)
            self._moving = False

        self.call_after_refresh(settle)

    def _follow(self) -> None:
        """Stay at the end while it grows, until the reader scrolls."""
        self._following = True
        if self.is_anchored:
            self.anchor()
        self.call_after_refresh(self.on_resize)

    def on_resize(self) -> None:
        """Follow the end only while the conversation is longer than the screen.

        Textual would push a shorter one down to the bottom of the screen.
        """
        if not self.container_size.height:
            return
        longer = self.virtual_size.height > self.container_size.height
        if longer and self._following and not self.is_anchored:
            self.anchor()
        elif not longer and self.is_anchored:
            self.anchor(False)
            self.scroll_home(animate=False)

    def watch_virtual_size(self) -> None:
        """The conversation has become longer or shorter."""
        self.on_resize()

    @property
    def _is_writing(self) -> bool:
        return any(isinstance(widget, Answer) and widget.live for widget in self._widgets.values())

    def compose(self) -> Iterable[Static]:
        """The two rows that stand for messages out of the window."""
        yield self._earlier
        yield self._later

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Show more messages when an end of those shown is reached."""
        super().watch_scroll_y(old_value, new_value)
        if not self.is_mounted or round(old_value) == round(new_value):
            return
        if new_value <= 1 and new_value < old_value:
            self._extend_start()
        elif new_value >= self.max_scroll_y - 1 and new_value > old_value:
            self._extend_end()

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

    def leave_cursor(self) -> None:
        """Take the cursor off and follow the end again."""
        self._select(None)
        self.go_to_end()

    def go_to_end(self) -> None:
        """Show the newest message and stay with it."""
        if self._window.later:
            self._window.at_end(len(self._records))
            self._show_window()
        self.scroll_end(animate=False)
        self._follow()

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

    def action_edit_message(self) -> None:
        """Ask for what the user said to be edited."""
        widget = self._chosen(UserMessage)
        if isinstance(widget, UserMessage):
            self.post_message(self.EditRequested(self, widget.record.node_id, widget.copy_text()))

    def action_sibling(self, step: int) -> None:
        """Ask for another branch at the message at the cursor, or at the newest answer."""
        widget = self._chosen(Answer)
        if widget is not None and widget.record.branch[1] > 1:
            self.post_message(self.SiblingRequested(self, widget.record.node_id, step))

    def action_unfold(self) -> None:
        """Unfold what is folded in the message at the cursor, or fold it again."""
        widget = self._chosen(Answer)
        if isinstance(widget, Answer):
            widget.show_thoughts(not widget.thoughts_shown)
        elif widget is not None:
            widget.show_whole(True)
