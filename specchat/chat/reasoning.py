"""Splits what a model writes into what it thinks and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class Channel(StrEnum):
    """What a piece of output is."""

    REASONING = "reasoning"
    ANSWER = "answer"


class _State(Enum):
    START = auto()
    REASONING = auto()
    ANSWER = auto()


@dataclass
class ReasoningSplit:
    """Reads output piece by piece; how it was cut makes no difference.

    Reasoning opens only at the very start, after nothing but whitespace, or was opened by the prompt (`starts_open`);
    later tags are the answer's own words. Whitespace right after either tag belongs to neither part. Reasoning that is
    never closed stays reasoning.
    """

    open_tag: str = "<think>"
    close_tag: str = "</think>"
    starts_open: bool = False

    def __post_init__(self) -> None:
        self._state = _State.REASONING if self.starts_open else _State.START
        self._skipping_space = self.starts_open
        self._held = ""

    @property
    def is_reasoning(self) -> bool:
        """Whether the output so far ends inside the reasoning."""
        return self._state is _State.REASONING

    def feed(self, text: str) -> list[tuple[Channel, str]]:
        """The parts that became certain with this text, none of them empty."""
        text = self._held + text
        self._held = ""
        parts: list[tuple[Channel, str]] = []
        if self._state is _State.START:
            text = self._at_start(text)
        if self._state is _State.REASONING:
            text = self._in_reasoning(text, parts)
        if self._state is _State.ANSWER:
            self._put(Channel.ANSWER, text, parts)
        return parts

    def finish(self) -> list[tuple[Channel, str]]:
        """What was held back as a possible tag, as the text it turned out to be."""
        parts: list[tuple[Channel, str]] = []
        held, self._held = self._held, ""
        self._put(Channel.REASONING if self.is_reasoning else Channel.ANSWER, held, parts)
        return parts

    def _at_start(self, text: str) -> str:
        """Decide whether reasoning opens; returns what is left to read."""
        words = text.lstrip()
        if words.startswith(self.open_tag):
            self._state, self._skipping_space = _State.REASONING, True
            return words.removeprefix(self.open_tag)
        if self.open_tag.startswith(words):
            self._held = text
            return ""
        self._state = _State.ANSWER
        return text

    def _in_reasoning(self, text: str, parts: list[tuple[Channel, str]]) -> str:
        """Emit reasoning up to the closing tag; returns what follows it."""
        thought, tag, rest = text.partition(self.close_tag)
        if not tag:
            certain = len(text) - _overlap(text, self.close_tag)
            thought, self._held = text[:certain], text[certain:]
        self._put(Channel.REASONING, thought, parts)
        if tag:
            self._state, self._skipping_space = _State.ANSWER, True
        return rest

    def _put(self, channel: Channel, text: str, parts: list[tuple[Channel, str]]) -> None:
        if self._skipping_space:
            text = text.lstrip()
            self._skipping_space = not text
        if text:
            parts.append((channel, text))


def _overlap(text: str, tag: str) -> int:
    """The length of the longest ending of `text` that begins `tag`."""
    return next((n for n in range(min(len(tag) - 1, len(text)), 0, -1) if tag.startswith(text[-n:])), 0)
