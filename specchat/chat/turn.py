"""One turn: from a conversation to the text of its answer, as it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from specchat.chat.reasoning import Channel, ReasoningSplit
from specchat.chat.text import TextStream
from specchat.chat.vocabulary import Vocabulary
from specchat.engine.answer import Answer
from specchat.speculation.step import Step

Part = tuple[Channel, str]


class StopStrings:
    """Watches the text that emitted tokens spell and ends the answer with the token that completes a stop string."""

    def __init__(self, vocabulary: Vocabulary, stop_strings: Iterable[str]) -> None:
        self._vocabulary = vocabulary
        self._stream = TextStream(stop_strings)
        self._text = ""

    def take(self, tokens: Sequence[int]) -> int | None:
        """Read `tokens`; return how many of them are kept when a stop string ends within them."""
        for count, token in enumerate(tokens, start=1):
            self._text += self._stream.feed(self._vocabulary.piece(token))
            if self._stream.stopped:
                return count
        return None

    def certain_text(self) -> str:
        """The text that became certain since the last call."""
        text, self._text = self._text, ""
        return text

    def rest(self) -> str:
        """What was held back as a possible stop string or an unfinished character."""
        return self.certain_text() + self._stream.finish()


@dataclass(frozen=True, slots=True)
class Progress:
    """What one step added; the last one of a turn has no step."""

    step: Step | None
    parts: Sequence[Part]
    certain: str = ""
    """The text that became certain, before tags and the space around them were taken from it."""


class Turn:
    """An answer being written: iterate it for its progress; `text` and `reasoning` are what was written so far."""

    def __init__(self, answer: Answer, watcher: StopStrings, *, starts_in_reasoning: bool) -> None:
        self.answer = answer
        self._watcher = watcher
        self._split = ReasoningSplit(starts_open=starts_in_reasoning)
        self.starts_in_reasoning = starts_in_reasoning
        self.text = ""
        self.reasoning = ""

    def __iter__(self) -> Iterator[Progress]:
        for step in self.answer:
            certain = self._watcher.certain_text()
            yield Progress(step, self._read(self._split.feed(certain)), certain)
        rest = self._watcher.rest()
        yield Progress(None, self._read(self._split.feed(rest) + self._split.finish()), rest)

    def _read(self, parts: list[Part]) -> list[Part]:
        for channel, text in parts:
            if channel is Channel.REASONING:
                self.reasoning += text
            else:
                self.text += text
        return parts
