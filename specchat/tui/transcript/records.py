"""Messages as plain data, as they are kept and loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from specchat.worker.messages import Span


@dataclass(frozen=True, slots=True)
class Unread:
    """What the model no longer reads of the conversation before a message."""

    count: int
    """Messages."""
    summary: str = ""
    """What it reads in their place, in its own words."""
    left_out: int = 0
    """How many of them the summary says nothing about: the last ones, but for those that it missed."""
    missed: int = 0
    """How many of those were left out before it was written."""


@dataclass(slots=True)
class UserRecord:
    """What the user said; `branch` is (which, of how many) among its siblings."""

    node_id: str
    text: str
    branch: tuple[int, int] = (1, 1)
    attached: Sequence[str] = ()
    """Names of the files that go with it."""
    unread: Unread | None = None
    """Where the model begins to read at this message."""


@dataclass(slots=True)
class AnswerRecord:
    """What the model said, and how the answer ended."""

    node_id: str
    model: str
    text: str = ""
    reasoning: str = ""
    spans: list[Span] = field(default_factory=list)
    """Where the answer's text came from, piece by piece; empty when that was not kept."""
    figures_line: str = ""
    reason: str = ""
    """stop, length, cancelled or error; empty while it is written."""
    error: str = ""
    """A sentence about what went wrong."""
    branch: tuple[int, int] = (1, 1)
    thought_tokens: int | None = None
    thought_s: float | None = None
    tokens: int = 0
    """Tokens of a finished answer, reasoning included."""
    max_tokens: int | None = None
    """Tokens after which it had to end; None: as many as there was room for, or not known."""


Record = UserRecord | AnswerRecord
