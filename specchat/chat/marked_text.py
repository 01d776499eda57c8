"""Text that remembers which of its characters came from a conversation and which from the template.

A chat template mixes its own control tokens with what people typed. Rendering with `MarkedText` contents keeps the two
apart however the template handles them: it conditions on, slices, strips and splits the real text, and every piece of
the result still says where it came from. An operation that is not followed here yields text that is marked as content
as a whole (see `mark_all`): what a user typed can lose its place in the layout but can never become a control token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, SupportsIndex


class Origin(NamedTuple):
    """A field of a message, by the message's place in the conversation."""

    message: int
    field: str


class Span(NamedTuple):
    """A run of text from one place; no origin means the template's own words."""

    text: str
    origin: Origin | None


class _Mark(NamedTuple):
    start: int
    stop: int
    origin: Origin


class MarkedText(str):
    """A string whose `marks` (ordered, disjoint) say which characters are content, and whose."""

    __slots__ = ("marks",)
    marks: tuple[_Mark, ...]

    def __new__(cls, text: str, marks: Iterable[_Mark] = ()) -> MarkedText:
        """Text with the given marks, none by default."""
        self = super().__new__(cls, text)
        self.marks = tuple(marks)
        return self

    @classmethod
    def whole(cls, text: str, origin: Origin) -> MarkedText:
        """Text that is content from end to end."""
        return cls(text, [_Mark(0, len(text), origin)] if text else [])

    @staticmethod
    def joined(pieces: Iterable[str], separator: str = "") -> str:
        """`separator.join(pieces)` with every mark kept."""
        parts: list[str] = []
        for piece in pieces:
            if parts and separator:
                parts.append(separator)
            parts.append(piece)
        marks: list[_Mark] = []
        offset = 0
        for part in parts:
            if isinstance(part, MarkedText):
                marks += [_Mark(start + offset, stop + offset, origin) for start, stop, origin in part.marks]
            offset += len(part)
        text = "".join(parts)
        return MarkedText(text, marks) if marks else text

    def cut(self, start: int, stop: int) -> MarkedText:
        """`self[start:stop]` for 0 <= start <= stop <= len."""
        marks: list[_Mark] = []
        for place in range(bisect_right(self.marks, start, key=lambda mark: mark.stop), len(self.marks)):
            mark = self.marks[place]
            if mark.start >= stop:
                break
            marks.append(_Mark(max(mark.start, start) - start, min(mark.stop, stop) - start, mark.origin))
        return MarkedText(str.__getitem__(self, slice(start, stop)), marks)

    def spans(self) -> Iterator[Span]:
        """The text in order, template and content apart."""
        plain = str.__str__(self)
        position = 0
        for start, stop, origin in self.marks:
            if start > position:
                yield Span(plain[position:start], None)
            yield Span(plain[start:stop], origin)
            position = stop
        if position < len(plain):
            yield Span(plain[position:], None)

    # Jinja passes every printed value through str(), which may return a subclass.
    def __str__(self) -> str:
        return self

    def __add__(self, other: str) -> str:
        return MarkedText.joined((self, other))

    def __radd__(self, other: str) -> str:
        return MarkedText.joined((other, self))

    def __mul__(self, count: SupportsIndex) -> str:
        return MarkedText.joined([self] * count.__index__())

    __rmul__ = __mul__

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step == 1:
                return self.cut(start, max(start, stop))
            return MarkedText.joined(self[i] for i in range(start, stop, step))
        if not hasattr(key, "__index__"):
            # Templates probe for mappings this way; the answer is the plain string's.
            return str.__getitem__(self, key)
        index = key.__index__()
        index = index + len(self) if index < 0 else index
        return self.cut(index, index + 1) if 0 <= index < len(self) else str.__getitem__(self, key)

    def __iter__(self) -> Iterator[str]:
        return (self.cut(i, i + 1) for i in range(len(self)))

    def lstrip(self, chars: str | None = None, /) -> str:
        """As `str.lstrip`, marks kept."""
        return self.cut(len(self) - len(str.lstrip(self, chars)), len(self))

    def rstrip(self, chars: str | None = None, /) -> str:
        """As `str.rstrip`, marks kept."""
        return self.cut(0, len(str.rstrip(self, chars)))

    def strip(self, chars: str | None = None, /) -> str:
        """As `str.strip`, marks kept."""
        start = len(self) - len(str.lstrip(self, chars))
        return self.cut(start, max(start, len(str.rstrip(self, chars))))

    def removeprefix(self, prefix: str, /) -> str:
        """As `str.removeprefix`, marks kept."""
        return self.cut(len(self) - len(str.removeprefix(self, prefix)), len(self))

    def removesuffix(self, suffix: str, /) -> str:
        """As `str.removesuffix`, marks kept."""
        return self.cut(0, len(str.removesuffix(self, suffix)))

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str.split`, marks kept."""
        return self._located(str.split(self, sep, maxsplit), len(sep or ""))

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        """As `str.rsplit`, marks kept."""
        return self._located(str.rsplit(self, sep, maxsplit), len(sep or ""))

    def partition(self, sep: str, /) -> tuple[str, str, str]:
        """As `str.partition`, marks kept."""
        before, middle, after = str.partition(self, sep)
        start, end = len(before), len(before) + len(middle)
        return self.cut(0, start), self.cut(start, end), self.cut(end, end + len(after))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> str:
        """As `str.replace`, marks kept."""
        if not old:
            replaced: str = mark_all(str.replace(self, old, new, count), origin_of(self, new))
            return replaced
        return MarkedText.joined(self.split(old, count), new)

    def _located(self, parts: list[str], gap: int) -> list[str]:
        """The marked cuts behind the parts of a split, whose separators are `gap` long (0: any whitespace)."""
        plain = str.__str__(self)
        found: list[str] = []
        position = 0
        for part in parts:
            start = position if gap else plain.find(part, position)
            found.append(self.cut(start, start + len(part)))
            position = start + len(part) + gap
        return found


def origin_of(*values: Any) -> Origin | None:
    """Where the first content in these values, or in the lists and mappings they hold, came from."""
    for value in values:
        if isinstance(value, MarkedText):
            found = value.marks[0].origin if value.marks else None
        elif isinstance(value, Mapping):
            found = origin_of(*value.keys(), *value.values())
        elif isinstance(value, list | tuple):
            found = origin_of(*value)
        else:
            found = None
        if found is not None:
            return found
    return None


def mark_all(value: Any, origin: Origin | None) -> Any:
    """`value` with every unmarked string in it taken for content: the safe answer where marks were lost."""
    if origin is None or isinstance(value, MarkedText):
        return value
    if isinstance(value, str):
        return MarkedText.whole(value, origin)
    if isinstance(value, list | tuple):
        return type(value)(mark_all(item, origin) for item in value)
    return value
