"""Messages under each other, the newest in sight until the reader scrolls."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from rich.style import Style
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.scrollbar import ScrollBar
from textual.selection import Selection
from textual.strip import Strip
from textual.widgets import Static

from specchat.tui.transcript import blocks, code
from specchat.tui.transcript.answer import Answer
from specchat.tui.transcript.records import AnswerRecord, Record, UserRecord
from specchat.tui.transcript.scroll_bar import PlainScrollBar
from specchat.tui.transcript.user_message import UserMessage
from specchat.tui.transcript.window import MOST, STEP, Window

Shown = UserMessage | Answer

STYLES = {
    "strong", "em", "struck", "code", "link", "address", "mark", "rule", "quiet", "warning",
    "heading-1", "heading-2", "heading-3", "table-header",
    "code-block", "code-language", "code-comment", "code-keyword", "code-string", "code-number", "code-name",
    "accepted", "corrected", "bonus", "plain", "cursor-mark", "prompt-sign",
}  # fmt: skip
"""Component classes of what messages say. They are the list's: Textual computes them anew for every widget that has
them, which would take longer than laying a message out."""


class More(Static):
    """Says how many messages are not shown; a click shows some of them."""

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """It is no part of the conversation's text."""
        return None


class MessageList(VerticalScroll):
    """Messages of one conversation. Only some around those in sight are widgets, so its length costs nothing."""

    COMPONENT_CLASSES: ClassVar[set[str]] = STYLES
    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("message_list.tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id=id)
        self._clock = clock
        self._records: list[Record] = []
        self._widgets: dict[int, Shown] = {}
        self._window = Window()
        self._earlier = More(markup=False, classes="-hidden")
        self._later = More(markup=False, classes="-hidden")
        self._moving = False
        self._following = True

    # What the conversation is

    def load(self, records: Iterable[Record], at: str | None = None) -> None:
        """Show another conversation: its end first, or the message `at`."""
        self._records = list(records)
        place = self.place_of(at)
        self.anchor(False)
        self._following = place is None
        self._window.opened_at(place, len(self._records))
        self._show_window()
        if place is None:
            self._follow()
        else:
            # What is shown may be shorter than the screen, and then it could not be scrolled.
            self.call_after_refresh(self.on_resize)

    def place_of(self, node_id: str | None) -> int | None:
        """Where a message stands among all of the conversation; None where it is none of them."""
        return next((place for place, record in enumerate(self._records) if record.node_id == node_id), None)

    def widen(self, records: Iterable[Record], shift: int) -> None:
        """Show all of the conversation of which a part is shown, behind `shift` messages; what is in sight stays."""
        whole, part = list(records), self._records
        # What is as it was keeps its widget.
        whole[shift : shift + len(part)] = [
            old if old == new else new for old, new in zip(part, whole[shift:], strict=False)
        ]
        self._records = whole
        self._widgets = {place + shift: widget for place, widget in self._widgets.items()}
        self._window.shifted(shift, len(whole))
        if self._following:
            if self._window.later:
                # What was the end of the part is not the end of the conversation.
                self._window.at_end(len(whole))
            self._show_window()
            self._follow()
        else:
            self._move_window(self._window.first, self._window.last)

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

    def message(self, node_id: str) -> Shown | None:
        """The widget of a message, if it is in the window."""
        return next((widget for widget in self._widgets.values() if widget.record.node_id == node_id), None)

    @property
    def last_answer(self) -> Answer | None:
        """The newest answer that is a widget."""
        return next((w for _, w in sorted(self._widgets.items(), reverse=True) if isinstance(w, Answer)), None)

    def go_to_end(self) -> None:
        """Show the newest message and stay with it."""
        if self._window.later:
            self._window.at_end(len(self._records))
            self._show_window()
        self.scroll_end(animate=False)
        self._follow()

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
        if self._window.last - self._window.first > self._most:
            self._cut_start(self._window.last - (self._most - STEP))
        return widget

    def _made(self, index: int) -> Shown:
        record = self._records[index]
        widget = Answer(record, self._clock) if isinstance(record, AnswerRecord) else UserMessage(record)
        self.dress(index, widget)
        self._widgets[index] = widget
        return widget

    def notify_style_update(self) -> None:
        """Draw the messages in other styles."""
        super().notify_style_update()
        for widget in self._widgets.values():
            widget.forget_drawn()

    def dress(self, index: int, widget: Shown) -> None:
        """Called for every widget that is made."""

    def _show_window(self) -> None:
        """Make the window's messages widgets, and no others."""
        for index in [index for index in self._widgets if not self._kept(index)]:
            self._widgets.pop(index).remove()
        missing = [index for index in range(self._window.first, self._window.last) if index not in self._widgets]
        present = sorted(self._widgets)
        for place, run in groupby(missing, lambda index: bisect(present, index)):
            before = self._later if place == len(present) else self._widgets[present[place]]
            self.mount(*[self._made(index) for index in run], before=before)
        self._tell_more()

    def _kept(self, index: int) -> bool:
        widget = self._widgets[index]
        same = index < len(self._records) and self._records[index] is widget.record
        live = isinstance(widget, Answer) and widget.live
        # An answer that is being written stays the widget that the app writes to.
        return same and (live or self._window.holds(index))

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

    @property
    def _most(self) -> int:
        """Messages that are widgets at most; enough to fill the highest screen twice."""
        return max(MOST, self.container_size.height)

    def _extend_start(self) -> None:
        """Show earlier messages; those at the other end go, but an answer that is being written stays."""
        if not self._moving and self._window.first:
            first = max(0, self._window.first - STEP)
            last = self._window.last if self._is_writing else min(self._window.last, first + self._most)
            self._move_window(first, last)

    def _extend_end(self) -> None:
        """Show later messages; those at the other end go."""
        if not self._moving and self._window.later:
            last = min(self._window.total, self._window.last + STEP)
            self._move_window(max(self._window.first, last - self._most), last)

    def _move_window(self, first: int, last: int) -> None:
        """Show other messages, and keep one that is in sight where it is on the screen."""
        self._moving = True
        top = self.scroll_y
        kept = [widget for index, widget in sorted(self._widgets.items()) if first <= index < last]
        in_sight = next((widget for widget in kept if widget.virtual_region.bottom > top), None)
        above = in_sight.virtual_region.y - top if in_sight else 0
        self._window.first, self._window.last = first, last
        self._show_window()

        def settle() -> None:
            if in_sight is not None:
                self.scroll_to(y=in_sight.virtual_region.y - above, animate=False)
            self._moving = False
            self.on_resize()

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
        if not longer and self._window.later:
            self._extend_end()
        elif not longer:
            self._extend_start()

    def watch_virtual_size(self) -> None:
        """The conversation has become longer or shorter."""
        self.on_resize()

    @property
    def _is_writing(self) -> bool:
        return any(isinstance(widget, Answer) and widget.live for widget in self._widgets.values())

    def on_mount(self) -> None:
        """Load what reads Markdown, once the screen is there."""
        self.call_after_refresh(threading.Thread(target=_prepare, name="markdown", daemon=True).start)

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        """The bar beside the messages."""
        if self._vertical_scrollbar is None:
            self._vertical_scrollbar = PlainScrollBar(name="vertical", thickness=self.scrollbar_size_vertical)
            self._vertical_scrollbar.display = False
            self.app._start_widget(self, self._vertical_scrollbar)
        return self._vertical_scrollbar

    def render_lines(self, crop: Region) -> list[Strip]:
        """Nothing but the background, behind the messages."""
        background = self.background_colors[1]
        strip = Strip.blank(crop.width, Style(bgcolor=background.rich_color))
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, background)
        return [strip] * crop.height

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


def _prepare() -> None:
    blocks.prepare()
    code.prepare()
