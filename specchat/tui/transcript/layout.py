"""Blocks of Markdown as rows of a given width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from rich.cells import cell_len
from textual.cache import LRUCache
from textual.content import Content

from specchat.tui.transcript.blocks import Block, Code, Heading, Item, Items, Paragraph, Quote, Rule, Table
from specchat.tui.transcript.code import CodePieces
from specchat.tui.transcript.line import EMPTY, Line, wrapped
from specchat.tui.transcript.table import TableRows

_BULLETS = ("•", "◦", "▪")
_QUOTED = Content.styled("│ ", ".mark")
_NARROWEST = 8
COPY: Final = "copy"
"""What stands over a code block, to be clicked."""


class Layout:
    """Lays blocks out for one width; code that was laid out before is not again."""

    def __init__(self, width: int, pieces: CodePieces) -> None:
        self.width = width
        self._pieces = pieces
        self._wrapped: LRUCache[tuple[int, int], tuple[Content, tuple[Line, ...]]] = LRUCache(1 << 14)
        self._table_rows = TableRows()
        self._code: LRUCache[tuple[int, int], tuple[tuple[Content, ...], tuple[Line, ...]]] = LRUCache(512)

    def lines(self, block: Block) -> list[Line]:
        """The rows of a block."""
        return list(self._block(block, self.width))

    def _block(self, block: Block, width: int) -> Iterator[Line]:
        match block:
            case Paragraph(text):
                yield from self._paragraph(text, width)
            case Heading(level, text):
                yield from wrapped(text.stylize(f".heading-{min(level, 3)}"), width)
            case Code():
                yield from self._code_lines(block, width)
            case Rule():
                yield Line(Content.styled("─" * width, ".rule"))
            case Quote(blocks):
                inner = self.stacked(blocks, [True] * len(blocks), width - 2)
                yield from (_shifted(line, _QUOTED) for line in inner)
            case Items():
                yield from self._items(block, width)
            case Table():
                yield from self._table_rows.lines(block, width)

    def _paragraph(self, text: Content, width: int) -> tuple[Line, ...]:
        # The text is kept beside its rows, so that its id can't become another's.
        known = self._wrapped.get((id(text), width))
        if known is None:
            known = self._wrapped[(id(text), width)] = (text, tuple(wrapped(text, width)))
        return known[1]

    def stacked(self, blocks: Sequence[Block], gaps: Sequence[bool], width: int) -> Iterator[Line]:
        """Blocks under each other, with an empty row before those with a gap."""
        for index, (block, gap) in enumerate(zip(blocks, gaps, strict=True)):
            if index and gap:
                yield EMPTY
            yield from self._block(block, max(_NARROWEST, width))

    def _items(self, block: Items, width: int) -> Iterator[Line]:
        bullet = _BULLETS[block.depth % len(_BULLETS)]
        for index, item in enumerate(block.items):
            if item.spaced and (index or block.continues):
                yield EMPTY
            # Two digits have room always: how far an item is indented must not depend on how many follow.
            symbol = f"{bullet} " if block.number is None else f"{block.number + index}.".rjust(3) + " "
            yield from self._item(
                item, Content.styled(f"{'  ' if block.number is None else ''}{symbol}", ".mark"), width
            )

    def _item(self, item: Item, symbol: Content, width: int) -> Iterator[Line]:
        indent = Content(" " * symbol.cell_length)
        first = symbol
        for line in self.stacked(item.blocks, item.gaps, width - symbol.cell_length) if item.blocks else [EMPTY]:
            yield _shifted(line, first)
            first = indent

    def _code_lines(self, block: Code, width: int) -> Iterator[Line]:
        yield Line(_code_head(block.language, width), fill="code-block", opens_code=True)
        for piece in self._pieces.pieces(block.language, block.text):
            known = self._code.get((id(piece), width))
            if known is None:
                known = self._code[(id(piece), width)] = (piece, tuple(_folded(piece, width)))
            yield from known[1]
        yield Line(Content(""), fill="code-block")


def _code_head(language: str, width: int) -> Content:
    """The language, and the mark to click, where there is room for both."""
    room = width - 1
    name = f"{language[: room - cell_len(COPY) - 3]} · " if language and room > cell_len(COPY) + 4 else ""
    gap = " " * (room - cell_len(name) - cell_len(COPY))
    return Content.assemble(gap, (name + COPY, ".code-language"))


def _folded(piece: Sequence[Content], width: int) -> Iterator[Line]:
    margin = Content("  ")
    for content in piece:
        for index, row in enumerate(content.fold(width - 4) or [content]):
            yield Line(margin + row, fill="code-block", joint="" if index else None)


def _shifted(line: Line, prefix: Content) -> Line:
    return replace(line, prefix=prefix + line.prefix)
