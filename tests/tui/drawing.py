"""Rows of a text, to compare, and pieces of an answer, of every origin."""

from __future__ import annotations

from collections.abc import Iterable

from specchat.tui.transcript.blocks import parse
from specchat.tui.transcript.code import CodePieces
from specchat.tui.transcript.inline import Inline
from specchat.tui.transcript.layout import Layout
from specchat.tui.transcript.line import EMPTY, Line
from specchat.worker.messages import Span


def spans(text: str, size: int = 9, channel: str = "answer") -> list[Span]:
    origins = ("accepted", "accepted", "corrected", "bonus")
    return [Span(channel, text[i : i + size], origins[i // size % 4]) for i in range(0, len(text), size)]


def whole(text: str, width: int) -> list[Line]:
    """The rows of a text that is parsed at once, without any sealing."""
    environment: dict[str, object] = {}
    layout = Layout(width, CodePieces())
    rows: list[Line] = []
    for placed in parse(text, Inline(environment), environment):
        rows += [EMPTY, *layout.lines(placed.block)] if rows else layout.lines(placed.block)
    return rows


def drawn(lines: Iterable[Line]) -> list[object]:
    return [(line.plain, line.prefix.spans, line.content.spans, line.fill, line.joint) for line in lines]
