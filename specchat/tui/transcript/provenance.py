"""The text of an answer in which every piece shows who wrote it: by colour, and by its cut for those who see none.

Accepted is italic, corrected underlined, bonus bold; what was written without a draft is as usual.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.content import Content

from specchat.tui.transcript.growing_lines import GrowingLines
from specchat.tui.transcript.line import EMPTY, Line, wrapped
from specchat.tui.transcript.shown import shown
from specchat.worker.messages import Span

LEGEND = {
    "accepted": "drafted, kept",
    "corrected": "drafted wrong, corrected",
    "bonus": "the target's own after a draft",
    "plain": "without a draft",
}


class Provenance:
    """Pieces of text by origin, under a legend of the origins that occur."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._text = GrowingLines()
        self._present: set[str] = set()
        for span in spans:
            self.append(span)

    def append(self, span: Span) -> None:
        """Add a piece; those of the reasoning are left out."""
        if span.channel == "answer" and span.text:
            known = span.origin in LEGEND
            self._text.append(shown(span.text), f".{span.origin}" if known else "")
            self._present |= {span.origin} if known else set()

    def lines(self, width: int) -> list[Line]:
        """The legend and the rows."""
        if not self._present:
            said = "Where the tokens of this answer came from was not kept."
            return list(wrapped(Content.styled(said, ".quiet"), width))
        entries = [
            Content.styled(f" {origin} ", f".{origin}") + Content.styled(f" {said}", ".quiet")
            for origin, said in LEGEND.items()
            if origin in self._present
        ]
        legend = [line for entry in _beside(entries, width) for line in wrapped(entry, width)]
        return [*legend, EMPTY, *self._text.lines(width)]


def _beside(entries: Iterable[Content], width: int) -> Iterable[Content]:
    """As many entries in a row as fit."""
    row = Content("")
    for entry in entries:
        wider = row + "   " + entry if row else entry
        if row and wider.cell_length > width:
            yield row
            wider = entry
        row = wider
    yield row
