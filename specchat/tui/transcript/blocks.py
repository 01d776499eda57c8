"""Markdown as a tree of blocks. HTML is text like any other."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from textual.content import Content

from specchat.tui.transcript.inline import Inline, inline_parser

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: Content


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading of level 1 to 6."""

    level: int
    text: Content


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be shown as it is, highlighted as `language` when that is known."""

    language: str
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across."""


@dataclass(frozen=True, slots=True)
class Quote:
    """Blocks that are quoted."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list; `spaced` where a blank line stands before it."""

    blocks: tuple[Block, ...]
    gaps: tuple[bool, ...]
    """For each block, whether a blank line stands before it."""
    spaced: bool


@dataclass(frozen=True, slots=True)
class Items:
    """A list, or the next items of one: `number` is that of the first item, None for bullets."""

    items: tuple[Item, ...]
    number: int | None
    depth: int = 0
    continues: bool = False
    """Whether the items before these are another block."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; `aligned` holds left, center or right for each column."""

    header: tuple[Content, ...]
    rows: tuple[tuple[Content, ...], ...]
    aligned: tuple[str, ...]


Block = Paragraph | Heading | Code | Rule | Quote | Items | Table


@dataclass(frozen=True, slots=True)
class Placed:
    """A block of the outermost level and the source lines it was read from, `starts` those of a list's items."""

    block: Block
    start: int
    starts: tuple[int, ...] = ()


_CLOSED_BY = {
    f"{name}_open": f"{name}_close" for name in ("paragraph", "heading", "blockquote", "bullet_list", "ordered_list")
} | {f"{name}_open": f"{name}_close" for name in ("list_item", "table", "thead", "tbody", "tr", "th", "td")}


@cache
def _parser() -> MarkdownIt:
    # A tenth of a second, which the first paint need not wait for.
    from markdown_it import MarkdownIt

    parser = MarkdownIt("gfm-like", {"html": False})
    # Inline text is parsed apart from the blocks: so that a block that has not changed is not parsed again.
    parser.core.ruler.enableOnly(["normalize", "block"])
    return parser


def prepare() -> None:
    """Load the parsers, in any thread; else the first text that is read waits for them."""
    _parser()
    inline_parser()


def parse(text: str, inline: Inline, environment: MutableMapping[str, Any]) -> list[Placed]:
    """The blocks of `text`; link definitions are read from and added to `environment`."""
    reader = _Reader(text.split("\n"), inline)
    tokens = _parser().parse(text, environment)
    return [reader.placed(token, inner) for token, inner in _nodes(tokens) if reader.known(token)]


class _Reader:
    """Turns tokens into blocks."""

    def __init__(self, lines: Sequence[str], inline: Inline) -> None:
        self._lines = lines
        self._inline = inline
        self._depth = 0

    def known(self, token: Token) -> bool:
        """Whether a token is a block of its own."""
        return token.type in _CLOSED_BY or token.type in ("fence", "code_block", "hr")

    def placed(self, token: Token, inner: Sequence[Token]) -> Placed:
        """A block and where it begins."""
        starts: tuple[int, ...] = ()
        if token.type.endswith("list_open"):
            starts = tuple(_line(item) for item, _ in _nodes(inner))
        return Placed(self._block(token, inner), _line(token), starts)

    def _block(self, token: Token, inner: Sequence[Token]) -> Block:
        match token.type:
            case "heading_open":
                return Heading(int(token.tag[1:]), self._text(inner))
            case "fence" | "code_block":
                language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
                return Code(language, token.content.removesuffix("\n"))
            case "hr":
                return Rule()
            case "blockquote_open":
                return Quote(tuple(self._block(*node) for node in _nodes(inner) if self.known(node[0])))
            case "bullet_list_open" | "ordered_list_open":
                return self._list(token, inner)
            case "table_open":
                return self._table(inner)
            case _:
                return Paragraph(self._text(inner))

    def _text(self, inner: Sequence[Token]) -> Content:
        return self._inline.content(inner[0].content) if inner else Content("")

    def _list(self, token: Token, inner: Sequence[Token]) -> Items:
        first = token.attrGet("start")
        number = None if token.type == "bullet_list_open" else 1 if first is None else int(first)
        depth = self._depth
        self._depth += 1
        items = tuple(
            self._item(item, content, spaced=index > 0 and self._blank_before(item))
            for index, (item, content) in enumerate(_nodes(inner))
        )
        self._depth = depth
        return Items(items, number, depth)

    def _item(self, item: Token, inner: Sequence[Token], *, spaced: bool) -> Item:
        nodes = [node for node in _nodes(inner) if self.known(node[0])]
        gaps = tuple(index > 0 and self._blank_before(token) for index, (token, _) in enumerate(nodes))
        return Item(tuple(self._block(*node) for node in nodes), gaps, spaced)

    def _table(self, inner: Sequence[Token]) -> Table:
        rows: list[tuple[Content, ...]] = []
        aligned: list[str] = []
        for _, section in _nodes(inner):
            for _, row in _nodes(section):
                cells = list(_nodes(row))
                rows.append(tuple(self._text(content) for _, content in cells))
                if len(rows) == 1:
                    aligned = [str(cell.attrGet("style") or "left").removeprefix("text-align:") for cell, _ in cells]
        return Table(rows[0] if rows else (), tuple(rows[1:]), tuple(aligned))

    def _blank_before(self, token: Token) -> bool:
        line = _line(token)
        return line > 0 and not self._lines[line - 1].strip(" \t>")


def _nodes(tokens: Sequence[Token]) -> Iterator[tuple[Token, Sequence[Token]]]:
    """The tokens of the outermost level, each with those inside it."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.nesting == 1:
            end = _end(tokens, index)
            yield token, tokens[index + 1 : end]
            index = end + 1
        else:
            yield token, ()
            index += 1


def _end(tokens: Sequence[Token], index: int) -> int:
    depth = 0
    for end in range(index, len(tokens)):
        depth += tokens[end].nesting
        if depth == 0:
            return end
    return len(tokens)


def _line(token: Token) -> int:
    return token.map[0] if token.map else 0


def code_texts(text: str) -> list[str]:
    """The text of each code block of a document, in order, those inside lists and quotes too."""
    tokens = _parser().parse(text)
    return [token.content.removesuffix("\n") for token in tokens if token.type in ("fence", "code_block")]
