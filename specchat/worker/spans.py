"""Which token each piece of an answer's text came from."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterable
from typing import Protocol

from specchat.chat.reasoning import Channel, ReasoningSplit
from specchat.chat.turn import Progress
from specchat.speculation.step import Origin, Step
from specchat.worker.messages import Span


class Pieces(Protocol):
    """The part of a vocabulary that spells."""

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""


class Provenance:
    """Cuts the text of one turn into spans, each of one origin.

    A character belongs to the token that completes it. Text is held back behind tokens (it may become a stop string or
    a tag) and some is dropped, so the origins wait in a queue, a run of characters each, until their text comes.
    """

    def __init__(self, vocabulary: Pieces, *, starts_in_reasoning: bool) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._runs: deque[tuple[int, Origin]] = deque()
        self._last = Origin.PLAIN
        self._certain = ""
        self._channel = Channel.REASONING if starts_in_reasoning else None
        self._skips_space = starts_in_reasoning

    def spans(self, progress: Progress) -> list[Span]:
        """The spans of the parts of `progress`: joined channel by channel they are the parts."""
        self._decode(progress.step)
        self._certain += progress.certain
        found: list[Span] = []
        for channel, text in progress.parts:
            self._cut(self._before(channel))
            found += self._take(channel, text)
        return joined(found)

    def _decode(self, step: Step | None) -> None:
        if step is None:
            self._runs.append((len(self._decoder.decode(b"", final=True)), self._last))
            return
        for token, origin in zip(step.tokens, step.origins, strict=True):
            self._runs.append((len(self._decoder.decode(self._vocabulary.piece(token))), origin))
            self._last = origin

    def _before(self, channel: Channel) -> int:
        """Characters of the certain text before the next part, which is of `channel`: tags and the space after them."""
        text, at = self._certain, 0
        opening, closing = ReasoningSplit.open_tag, ReasoningSplit.close_tag
        if self._channel is None and text.lstrip().startswith(opening):
            at = text.index(opening) + len(opening)
            self._channel = Channel.REASONING
        if channel is Channel.ANSWER and self._channel is Channel.REASONING:
            at = text.index(closing, at) + len(closing)
        if at or self._skips_space:
            at = len(text) - len(text[at:].lstrip())
        self._channel, self._skips_space = channel, False
        return at

    def _take(self, channel: Channel, text: str) -> list[Span]:
        if not self._certain.startswith(text):
            raise RuntimeError("A part of the answer is not the text that was read.")
        return [Span(channel.value, piece, origin.value) for piece, origin in self._cut(len(text))]

    def _cut(self, length: int) -> list[tuple[str, Origin]]:
        """Take `length` characters from the front of the certain text, by origin."""
        pieces = []
        while length:
            size, origin = self._runs.popleft()
            used = min(size, length)
            if used < size:
                self._runs.appendleft((size - used, origin))
            pieces.append((self._certain[:used], origin))
            self._certain = self._certain[used:]
            length -= used
        return [piece for piece in pieces if piece[0]]


def joined(spans: Iterable[Span]) -> list[Span]:
    """The same text in as few spans as its channels and origins allow."""
    result: list[Span] = []
    for span in spans:
        if result and (result[-1].channel, result[-1].origin) == (span.channel, span.origin):
            result[-1] = Span(span.channel, result[-1].text + span.text, span.origin)
        else:
            result.append(span)
    return result
