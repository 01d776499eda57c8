"""A widget that is drawn row by row: only rows in sight are ever turned into styled text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.segment import Segment
from textual.color import TRANSPARENT
from textual.content import Content
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from specchat.tui.transcript.line import Line, unwrapped

_MOST_DRAWN = 256
"""Rows whose drawing is kept: some screens full. All rows of long answers would be much for the garbage collector."""


class LineView(Widget):
    """A widget of rows. A subclass says what they are in `lay_out` and calls `changed` when they are others.

    Styles are named by component classes (`.strong`), which belong to the list of messages around it: one set for all
    messages. Selecting with the mouse works, and what is copied has its long lines in one piece.
    """

    DEFAULT_CSS = Path(__file__).with_name("line_view.tcss").read_text(encoding="utf-8")

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: tuple[int, list[Line]] = (0, [])
        self._strips: dict[int, tuple[Line, Strip]] = {}
        self._drawn_for = 0
        self._margined: dict[int, tuple[Strip, Strip]] = {}
        self._stale = True

    def lay_out(self, width: int) -> Sequence[Line]:
        """The rows for `width` cells."""
        raise NotImplementedError

    def rows(self, width: int | None = None) -> list[Line]:
        """The rows as they stand, for the widget's own width if none is given."""
        width = self.content_size.width if width is None else width
        if self._stale or width != self._lines[0]:
            self._lines = (width, list(self.lay_out(width)) if width > 0 else [])
            self._stale = False
        return self._lines[1]

    def changed(self) -> None:
        """Draw again; the layout is only computed anew if the number of rows is another."""
        before = len(self._lines[1])
        self._stale = True
        width = self.content_size.width
        self.refresh(layout=not width or len(self.rows(width)) != before)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """All there is."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The number of rows at `width`."""
        return len(self.rows(width))

    def render_line(self, y: int) -> Strip:
        """Draw one row."""
        rows = self.rows()
        if not 0 <= y < len(rows):
            return Strip.blank(self.content_size.width, self.visual_style.rich_style)
        if self._drawn_for != self.content_size.width or len(self._margined) > _MOST_DRAWN:
            self._strips, self._margined, self._drawn_for = {}, {}, self.content_size.width
        line, selection = rows[y], self.text_selection
        if selection is not None:
            return self._strip(line, y, selection)
        known = self._strips.get(y)
        if known is None or not _same(known[0], line):
            known = (line, self._strip(line, y, None))
        self._strips[y] = (line, known[1])
        return known[1]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw rows and the margins beside them.

        Textual's own way supports every border and effect, and costs more than all the rest of drawing a text that
        scrolls; this widget has margins only, and a mark in the first column when the cursor is on it.
        """
        filters = self.get_line_filters()
        background = self.background_colors[1] if filters else TRANSPARENT
        first, last = crop.column_span
        whole = (first, last) == (0, self.outer_size.width)
        strips: list[Strip] = []
        for y in crop.line_range:
            strip = self._with_margins(y)
            for line_filter in filters:
                strip = strip.apply_filter(line_filter, background)
            strips.append(strip if whole else strip.crop(first, last))
        return strips

    def _with_margins(self, y: int) -> Strip:
        gutter = self.styles.gutter
        row = self.render_line(y - gutter.top)
        known = self._margined.get(y)
        if known is not None and known[0] is row:
            return known[1]
        base = self.visual_style.rich_style
        mark = Segment(" ", base)
        if self.has_class("-at-cursor"):
            mark = Segment("▌", (self.visual_style + self._get_style(".cursor-mark")).rich_style)
        strip = Strip([mark, Segment(" " * (gutter.left - 1), base), *row, Segment(" " * gutter.right, base)])
        self._margined[y] = (row, strip)
        return strip

    def _get_style(self, style: Style | str) -> Style:
        """A style by its name. A widget that was taken out, and is drawn a last time, is in no list that knows them."""
        return Style() if self.parent is None else super()._get_style(style)

    def _strip(self, line: Line, y: int, selection: Selection | None) -> Strip:
        base = self.visual_style
        filled = base + self._get_style(f".{line.fill}") if line.fill else base
        prefix, content = line.prefix, line.content
        if selection is not None and (span := selection.get_span(y)) is not None:
            prefix, content = self._selected(line, *span)
        segments: list[Segment] = []
        x = 0
        for part, style in ((prefix, base), (content, filled)):
            for text, own in part.render(style, end="", parse_style=self._get_style):
                segments.append(Segment(text, (style + own).rich_style_with_offset(x, y)))
                x += len(text)
        return Strip(segments).adjust_cell_length(self.content_size.width, filled.rich_style_with_offset(x, y))

    def _selected(self, line: Line, start: int, end: int) -> tuple[Content, Content]:
        style = Style.from_styles(self.screen.get_component_styles("screen--selection"))
        whole = line.prefix + line.content
        whole = whole.stylize(style, start, len(whole) if end == -1 else end)
        return whole[: len(line.prefix)], whole[len(line.prefix) :]

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The text under the mouse's selection, long lines in one piece."""
        chosen: list[Line] = []
        for y, line in enumerate(self.rows()):
            span = selection.get_span(y)
            if span is None:
                continue
            start, end = span
            text = line.plain if end == -1 else line.plain[:end]
            if start or not chosen or line.joint is None:
                chosen.append(Line(Content(text[start:]), joint=line.joint if chosen else None))
            else:
                chosen.append(Line(Content(text[len(line.prefix) :]), joint=line.joint))
        return (unwrapped(chosen), "\n") if chosen else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw what is selected."""
        self.refresh()

    def forget_drawn(self) -> None:
        """Draw every row anew: styles have changed."""
        self._strips.clear()
        self._margined.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw in other styles."""
        self.forget_drawn()
        super().notify_style_update()


def _same(before: Line, now: Line) -> bool:
    """Whether two rows look the same, as most of an answer that is being written do."""
    return before is now or (
        before.fill == now.fill and before.content.is_same(now.content) and before.prefix.is_same(now.prefix)
    )
