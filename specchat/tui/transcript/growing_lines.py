"""Plain text that is laid out while it is written: each of its lines once."""

from __future__ import annotations

from textual.content import Content, Span

from specchat.tui.transcript.line import Line, wrapped


class GrowingLines:
    """Text in styled pieces, wrapped, every row after `prefix`."""

    def __init__(self, prefix: Content | None = None) -> None:
        self._prefix = prefix or Content("")
        self._closed: list[Content] = []
        self._parts: list[str] = []
        self._spans: list[Span] = []
        self._length = 0
        self._width = 0
        self._rows: list[Line] = []
        self._laid_out = 0

    def append(self, text: str, style: str = "") -> None:
        """Add a piece to the end, styled by a component class (`.accepted`) or not."""
        for index, part in enumerate(text.split("\n")):
            if index:
                self._closed.append(self._open())
                self._parts, self._spans, self._length = [], [], 0
            if part:
                if style:
                    self._spans.append(Span(self._length, self._length + len(part), style))
                self._parts.append(part)
                self._length += len(part)

    def lines(self, width: int) -> list[Line]:
        """The rows at `width` cells; line ends at the very end of the text are not shown."""
        if width != self._width:
            self._width, self._rows, self._laid_out = width, [], 0
        closed = len(self._closed)
        if not self._parts:
            while closed > self._laid_out and not self._closed[closed - 1]:
                closed -= 1
        for content in self._closed[self._laid_out : closed]:
            self._rows.extend(self._wrapped(content))
        self._laid_out = max(closed, self._laid_out)
        return [*self._rows, *self._wrapped(self._open())] if self._parts else list(self._rows)

    def _open(self) -> Content:
        return Content("".join(self._parts), self._spans)

    def _wrapped(self, content: Content) -> list[Line]:
        return list(wrapped(content, self._width, self._prefix, self._prefix))
