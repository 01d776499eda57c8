"""One turn of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True)
class Message:
    """What was said, and for an answer the tokens it was generated as.

    `content` is the answer alone, `reasoning` what the model thought before it. `token_ids` are all the tokens of the
    turn as the model produced them, reasoning and end of turn included: they, not the text, are what the model said.
    """

    role: Role
    content: str
    token_ids: tuple[int, ...] | None = None
    reasoning: str = ""
