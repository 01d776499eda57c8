"""Markdown that is read while it is written."""

from __future__ import annotations

import re
from typing import Any

from specchat.tui.transcript.blocks import Code, Item, Items, Placed, parse
from specchat.tui.transcript.code import CodePieces
from specchat.tui.transcript.inline import Inline
from specchat.tui.transcript.layout import Layout
from specchat.tui.transcript.line import EMPTY, Line

TRY_EVERY = 500
"""Characters after which it is tried to seal; more when the tail is long, so that one huge block costs little."""

# Only the plainest openings; the parser knows the others.
_FENCE = re.compile(r"(```|~~~)([\w+#.-]*)\n")
# A last line of such characters alone may still become a heading, a list, a rule or a fence: it waits for one more.
_UNDECIDED = re.compile(r"[ \t]*([-=*+#>`~|_:]+|\d+[.)]?)[ \t]*")


class GrowingMarkdown:
    """The rows of a growing text.

    A block is sealed when another has begun after it on a finished line, and an item of the outermost list when the
    next one has: nothing written later changes it. Sealed blocks are laid out once for a width; only what follows
    them, the tail, is parsed at a write. Where text is sealed depends on the text alone, not on how it was cut.
    A link definition that comes after its use is the exception: `finish` then reads everything once more.
    """

    def __init__(self) -> None:
        self._environment: dict[str, Any] = {}
        self._inline = Inline(self._environment)
        self._pieces = CodePieces()
        self._layout = Layout(0, self._pieces)
        self._text: list[str] = []
        self._tail = ""
        self._sealed: list[Placed] = []
        self._rows: list[Line] = []
        self._laid_out = 0
        self._in_list = False
        self._number: int | None = None
        self._spaced = False
        self._tried = 0

    def append(self, text: str) -> None:
        """Add to the end."""
        self._text.append(text)
        self._tail += text

    def finish(self) -> None:
        """Nothing more will be added: what waited is shown, and late link definitions are used."""
        self._inline.growing = False
        self._sealed.extend(self._read(self._tail))
        if self._environment.get("references"):
            self._inline.forget()
            self._in_list = False
            self._sealed, self._rows, self._laid_out = self._read("".join(self._text)), [], 0
        self._tail = ""
        self._inline.forget()

    def lines(self, width: int) -> list[Line]:
        """All rows at `width` cells."""
        if len(self._tail) - self._tried >= max(TRY_EVERY, self._tried / 10):
            self._seal()
        if width != self._layout.width:
            self._layout = Layout(width, self._pieces)
            self._rows, self._laid_out = [], 0
        for placed in self._sealed[self._laid_out :]:
            self._place(placed, self._rows)
        self._laid_out = len(self._sealed)
        rows = list(self._rows)
        self._inline.growing = True
        for placed in self._open_fence() or self._read(self._decided_tail()):
            self._place(placed, rows)
        return rows

    def _place(self, placed: Placed, lines: list[Line]) -> None:
        block = placed.block
        if lines and not (isinstance(block, Items) and block.continues):
            lines.append(EMPTY)
        lines.extend(self._layout.lines(block))

    def _open_fence(self) -> list[Placed]:
        """The code of a fence that was opened by the tail's first line and not closed, without parsing it."""
        opening = _FENCE.match(self._tail)
        if opening is None or re.search(rf"\n {{0,3}}{opening[1]}", self._tail):
            return []
        return [Placed(Code(opening[2], self._tail[opening.end() :].removesuffix("\n")), 0)]

    def _decided_tail(self) -> str:
        head, newline, last = self._tail.rpartition("\n")
        return head + newline if _UNDECIDED.fullmatch(last) else self._tail

    def _seal(self) -> None:
        """Seal what can't change any more; only finished lines are looked at."""
        self._tried = len(self._tail)
        if self._open_fence():
            return
        finished = self._tail[: self._tail.rfind("\n") + 1]
        found = self._read(finished)
        if not found:
            return
        last = found[-1]
        inside = isinstance(last.block, Items) and len(last.starts) > 1
        if len(found) == 1 and not inside:
            return
        start = last.starts[-1] if inside else last.start
        lines = finished.split("\n")
        closed = "\n".join(lines[:start]) + "\n"
        # Read again without the tail, and long text to its end.
        self._inline.growing = False
        self._sealed.extend(self._read(closed))
        self._tail = self._tail[len(closed) :]
        self._tried = 0
        self._in_list = inside
        self._spaced = not lines[start - 1].strip(" \t>")
        if isinstance(last.block, Items):
            number = last.block.number
            self._number = None if number is None else number + len(last.block.items) - 1

    def _read(self, text: str) -> list[Placed]:
        """The blocks of the tail's beginning; its first list may go on with one that is sealed."""
        found = parse(text, self._inline, self._environment)
        if self._in_list and found and isinstance(found[0].block, Items):
            block = found[0].block
            first = Item(block.items[0].blocks, block.items[0].gaps, self._spaced)
            items = Items((first, *block.items[1:]), self._number, block.depth, continues=True)
            found[0] = Placed(items, found[0].start, found[0].starts)
        return found
