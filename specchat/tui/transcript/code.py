"""Code as coloured lines. Long code is lexed in pieces, so that a line added to it costs a piece and not the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pygments.token import Token
from textual.cache import LRUCache
from textual.content import Content, Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer

SHORTEST = 8
"""Lines of a piece at least; it then ends at a blank line."""
LONGEST = 24
"""Lines after which a piece ends anywhere, but in a string or comment."""
_ENDLESS = 400

_STYLES = {
    Token.Comment: ".code-comment",
    Token.Keyword: ".code-keyword",
    Token.Literal.String: ".code-string",
    Token.Literal.Number: ".code-number",
    Token.Name.Function: ".code-name",
    Token.Name.Class: ".code-name",
    Token.Name.Decorator: ".code-keyword",
    Token.Name.Tag: ".code-keyword",
    Token.Name.Attribute: ".code-name",
    Token.Name.Builtin: ".code-keyword",
    Token.Operator.Word: ".code-keyword",
    Token.Generic.Deleted: ".code-comment",
    Token.Generic.Inserted: ".code-string",
    Token.Generic.Heading: ".strong",
}
_STYLE_OF: dict[object, str] = {}
_LEXERS: dict[str, Lexer | None] = {}


class CodePieces:
    """Cuts code into pieces of coloured lines; finished pieces are remembered.

    Where a piece ends depends on its own text alone, so code that grew line by line is cut as it is when read at once.
    """

    def __init__(self) -> None:
        self._finished: LRUCache[tuple[str, str], tuple[Content, ...]] = LRUCache(512)

    def pieces(self, language: str, code: str) -> Iterator[tuple[Content, ...]]:
        """The lines of `code`, piece by piece; the same object for a piece that was seen before."""
        lexer = _lexer(language)
        lines = code.split("\n")
        start = 0
        while start < len(lines):
            head = (language, "\n".join(lines[start : start + SHORTEST]))
            known = self._finished.get(head)
            # The piece was cut elsewhere if the text after its first lines is another.
            if known and [content.plain for content in known] == lines[start : start + len(known)]:
                yield known
                start += len(known)
                continue
            coloured, finished = _piece(lexer, lines[start : start + _ENDLESS])
            if finished and len(coloured) < len(lines) - start:
                self._finished[head] = coloured
            yield coloured
            start += len(coloured)


def _piece(lexer: Lexer | None, lines: Sequence[str]) -> tuple[tuple[Content, ...], bool]:
    """The first lines, coloured, up to where they may be cut, and whether they were cut."""
    if lexer is None:
        return tuple(Content(line) for line in lines[:LONGEST]), len(lines) > LONGEST
    tried = 0
    for count in range(SHORTEST, min(len(lines), _ENDLESS)):
        # A new try only when there is much more to look at: an endless string is not lexed at every line.
        if (not lines[count - 1].strip() or count >= LONGEST) and count >= 1.25 * tried:
            tried = count
            coloured, open_end = _coloured(lexer, lines[:count])
            if not open_end:
                return coloured, True
    coloured, _ = _coloured(lexer, lines)
    return coloured, len(lines) >= _ENDLESS


def _coloured(lexer: Lexer, lines: Sequence[str]) -> tuple[tuple[Content, ...], bool]:
    """Lines with their styles, and whether they end inside a string or a comment."""
    spans: list[list[Span]] = [[] for _ in lines]
    row = column = 0
    last = Token
    for _, kind, text in lexer.get_tokens_unprocessed("\n".join(lines) + "\n"):
        last = kind
        style = _style_of(kind)
        for index, part in enumerate(text.split("\n")):
            if index:
                row, column = row + 1, 0
            if style and part and row < len(lines):
                spans[row].append(Span(column, column + len(part), style))
            column += len(part)
    open_end = any(kind in (Token.Literal.String, Token.Comment.Multiline) for kind in last.split())
    return tuple(Content(line, found) for line, found in zip(lines, spans, strict=True)), open_end


def _style_of(kind: object) -> str:
    known = _STYLE_OF.get(kind)
    if known is None:
        parent: object = kind
        while parent is not None and parent not in _STYLES:
            parent = getattr(parent, "parent", None)
        known = _STYLE_OF[kind] = "" if parent is None else _STYLES[parent]
    return known


def prepare() -> None:
    """Load the colours of the most usual language, in any thread; its first lines wait for them otherwise."""
    _lexer("python")


def _lexer(language: str) -> Lexer | None:
    # No code is on the first screen.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    name = language.lower()
    if name not in _LEXERS:
        try:
            _LEXERS[name] = get_lexer_by_name(name) if name else None
        except ClassNotFound:
            _LEXERS[name] = None
    return _LEXERS[name]
