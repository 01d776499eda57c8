"""What stands beside and behind the messages, drawn at little cost: while an answer grows, it is at every write."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style
from textual.geometry import Region
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip


class PlainScrollBar(ScrollBar):
    """Textual's scroll bar, which has no border, title or opacity: its rows are drawn as they are."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of the bar; most are the same object."""
        bar = self.render()
        if not isinstance(bar, ScrollBarRender):
            return super().render_lines(crop)
        style = self.app.console.get_style(bar.style)
        segments = bar.render_bar(
            size=self.size.height,
            virtual_size=bar.virtual_size,
            window_size=bar.window_size,
            position=bar.position,
            thickness=bar.thickness,
            back_color=style.bgcolor or Color.default(),
            bar_color=style.color or Color.default(),
        ).segments
        filters, background = self.get_line_filters(), self.background_colors[1]
        # The thumb is drawn by reversing its colour with this one.
        behind = Style(bgcolor=background.rich_color)
        drawn: dict[int, Strip] = {}
        for segment in segments:
            if id(segment) not in drawn:
                strip = Strip([segment]).apply_style(behind)
                for line_filter in filters:
                    strip = strip.apply_filter(line_filter, background)
                drawn[id(segment)] = strip
        return [drawn[id(segments[y])] for y in crop.line_range]
