"""Lines: what a message is drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from textual.content import Content

_NOTHING = Content("")


@dataclass(frozen=True, slots=True)
class Line:
    """One row: `content`, not wider than the widget, after `prefix`; `fill` styles what follows the prefix."""

    content: Content
    prefix: Content = _NOTHING
    fill: str = ""
    joint: str | None = None
    """What stood between this row and the one above where they are one line, wrapped; None for a line of its own."""
    opens_code: bool = False
    """The first row of a code block, which a click copies."""

    @property
    def plain(self) -> str:
        """The characters of the row."""
        return self.prefix.plain + self.content.plain


EMPTY = Line(_NOTHING)


def wrapped(
    content: Content, width: int, first: Content = _NOTHING, rest: Content = _NOTHING, fill: str = ""
) -> Iterator[Line]:
    """`content` wrapped at words into `width` cells, prefixes included: `first` before the first row, `rest` after."""
    room = max(2, width - max(first.cell_length, rest.cell_length))
    text = content.plain
    position = 0
    for index, row in enumerate(content.wrap(room)):
        start = text.find(row.plain, position)
        between = text[position:start] if start >= 0 else " "
        joint = None if index == 0 or "\n" in between else between
        position = max(position, start) + len(row.plain)
        yield Line(row, rest if index else first, fill, joint)


def unwrapped(lines: Iterable[Line]) -> str:
    """The text of rows, each wrapped line in one piece again."""
    parts: list[str] = []
    for index, line in enumerate(lines):
        if line.joint is None:
            parts.append(("\n" if index else "") + line.plain)
        else:
            parts.append(line.joint + line.content.plain)
    return "".join(parts)
