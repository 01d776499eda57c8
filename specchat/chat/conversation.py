"""What the store keeps: conversations, and their messages as a tree. Times are seconds since the epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specchat.chat.message import Role
from specchat.chat.text import visible

_TITLE_LENGTH = 80
# Overrides and isolates of writing direction would reach beyond the title into what stands beside it.
_DIRECTION = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")

Span = tuple[str, str, str]
"""A run of an answer's text: channel (answer, reasoning), text, origin (accepted, corrected, bonus, plain)."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation; `id` also names it where its tokens are kept for drafting."""

    id: str
    title: str
    model: str
    """What answered last, else what it was begun with."""
    system: str
    created: float
    updated: float
    """When something was last said."""


@dataclass(frozen=True, slots=True)
class Node:
    """A message in the tree: `parent` is the message before it, None for a first one."""

    id: int
    chat_id: str
    parent: int | None
    role: Role
    text: str
    reasoning: str
    model: str
    created: float
    finish_reason: str | None
    """Why an answer ended; None while it is being written, and for ever where the program was killed."""
    statistics: Mapping[str, Any] | None
    """Named as in `worker.messages.Figures`; keys of its inner mappings are strings."""
    spans: tuple[Span, ...] | None


@dataclass(frozen=True, slots=True)
class Summary:
    """A line in the list of conversations; `messages` counts every branch."""

    id: str
    title: str
    model: str
    updated: float
    messages: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found; `snippet` is one line around the words."""

    chat_id: str
    node_id: int
    title: str
    role: Role
    snippet: str
    when: float


def exchanges(thread: Sequence[Node]) -> tuple[list[tuple[Node, Node]], Node | None]:
    """The questions of a branch, each with its answer, and the question that waits at the end, if one does.

    A question that got no words for an answer is left out elsewhere: many templates refuse two in a row.
    """
    pairs: list[tuple[Node, Node]] = []
    waiting: Node | None = None
    for node in thread:
        if node.role is Role.USER:
            waiting = node
        elif node.role is Role.ASSISTANT and waiting is not None and node.text.strip():
            pairs.append((waiting, node))
            waiting = None
    return pairs, waiting


def one_line(text: str) -> str:
    """Text as one line that can neither steer a terminal nor turn the direction of what stands beside it."""
    return " ".join(_DIRECTION.sub("", visible(text.replace("\r", "\n"))).split())


def title_of(text: str) -> str:
    """A title from a message: its first line with words in it, cut to 80 characters."""
    first = next((line for part in text.splitlines() if (line := one_line(part))), "")
    return first if len(first) <= _TITLE_LENGTH else first[: _TITLE_LENGTH - 1].rstrip() + "…"
