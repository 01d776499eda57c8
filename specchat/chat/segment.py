"""A rendered conversation, cut where the template's own words and the contents meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from specchat.chat.marked_text import MarkedText, Origin, Span
from specchat.chat.message import Message

CONTENT, REASONING = "content", "reasoning"


@dataclass(frozen=True)
class Segment:
    """A run of text that is either the template's own or content, never both."""

    text: str
    message: Message | None = None
    """Whose content or reasoning it is; None where the template speaks."""
    is_whole: bool = False
    """The run is all of the message's content, as it was or stripped: the ids it was generated as can stand for it."""

    @property
    def is_content(self) -> bool:
        """Whether the text came from the conversation, so that nothing in it may become a control token."""
        return self.message is not None


def segments_of(pieces: Iterable[object], messages: Sequence[Message]) -> tuple[Segment, ...]:
    """Return what a template printed for these messages, with neighbours of one origin joined."""
    return tuple(
        _segment("".join(span.text for span in run), origin, messages)
        for origin, run in groupby(_spans(pieces), key=attrgetter("origin"))
    )


def _spans(pieces: Iterable[object]) -> Iterator[Span]:
    for piece in pieces:
        if isinstance(piece, MarkedText):
            yield from piece.spans()
        elif isinstance(piece, str):
            # Nothing would part the contents on both sides of it.
            if piece:
                yield Span(piece, None)
        else:
            # Jinja hands the result of a call block on as it is.
            raise TypeError(f"it prints a {type(piece).__name__}")


def _segment(text: str, origin: Origin | None, messages: Sequence[Message]) -> Segment:
    if origin is None:
        return Segment(text)
    message = messages[origin.message]
    return Segment(text, message, origin.field == CONTENT and text.strip() == message.content.strip())
