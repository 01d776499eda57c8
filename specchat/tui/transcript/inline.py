"""Running text of Markdown as styled content. A style is the name of a component class (`.strong`): TCSS decides."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

from textual.cache import LRUCache
from textual.content import Content, Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_STYLES = {"em": ".em", "strong": ".strong", "s": ".struck", "link": ".link"}

LONG = 2000
"""Characters from which a growing text is not parsed at every write, but each time it has grown by a quarter."""


@cache
def inline_parser() -> MarkdownIt:
    """The parser of running text; the first call loads it."""
    from markdown_it import MarkdownIt

    return MarkdownIt("gfm-like", {"html": False})


class Inline:
    """Parses running text, each text once. `environment` holds the link definitions that it may use."""

    def __init__(self, environment: MutableMapping[str, Any]) -> None:
        self.environment = environment
        self.growing = False
        """Whether long text at the end may be shown unparsed for a while."""
        self._known: LRUCache[str, Content] = LRUCache(1 << 15)
        self._long: tuple[str, Content] | None = None

    def content(self, text: str) -> Content:
        """`text` with its styles."""
        known = self._known.get(text)
        if known is not None:
            return known
        if self.growing and len(text) > LONG:
            return self._provisional(text)
        content = self._parsed(text)
        self._known[text] = content
        return content

    def forget(self) -> None:
        """Parse everything anew: a link definition came late, or nothing more will be read."""
        self._known.clear()
        self._long = None

    def _provisional(self, text: str) -> Content:
        """The parsed beginning and the rest as it is: the price of long text stays in proportion to its length."""
        if self._long is not None:
            head, content = self._long
            if len(text) < 1.25 * len(head) and text.startswith(head):
                return content + Content(text[len(head) :].replace("\n", " "))
        content = self._parsed(text)
        self._long = (text, content)
        return content

    def _parsed(self, text: str) -> Content:
        tokens = inline_parser().parseInline(text, self.environment)
        styled = _Styled()
        for token in (tokens[0].children or ()) if tokens else ():
            styled.take(token)
        return styled.content()


class _Styled:
    """Text and its styles, token by token."""

    def __init__(self) -> None:
        self._text = ""
        self._spans: list[Span] = []
        self._opened: list[tuple[str, int, str]] = []

    def take(self, token: Token) -> None:
        """Add what a token says."""
        match token.type:
            case "code_inline":
                self._add(token.content, ".code")
            case "softbreak":
                self._add(" ")
            case "hardbreak":
                self._add("\n")
            case "image":
                self._add(f"{token.content} ({token.attrGet('src')})", ".address")
            case _ if token.nesting == 1:
                style = _STYLES.get(token.type.removesuffix("_open"), "")
                self._opened.append((style, len(self._text), str(token.attrGet("href") or "")))
            case _ if token.nesting == -1:
                self._close()
            case _:
                self._add(token.content)

    def content(self) -> Content:
        """What was taken."""
        return Content(self._text, self._spans)

    def _add(self, text: str, style: str = "") -> None:
        if style:
            self._spans.append(Span(len(self._text), len(self._text) + len(text), style))
        self._text += text

    def _close(self) -> None:
        """End a style; a link whose text is not its address says where it leads."""
        style, start, address = self._opened.pop()
        said = self._text[start:]
        if style:
            self._spans.append(Span(start, len(self._text), style))
        if address and said not in (address, address.removeprefix("mailto:"), address.removeprefix("http://")):
            self._add(f" ({address})", ".address")
