"""Where a conversation that no longer fits the context is cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from specchat.chat.message import Message, Role


def room(context: int) -> int:
    """Tokens that an answer should at least have."""
    return context // 16


def first_that_fits(
    messages: Sequence[Message], head: int, context: int, tokens: Callable[[Sequence[Message]], int]
) -> int | None:
    """The question to begin with, so that the prompt fills half of `context` tokens at most.

    The first `head` messages stay before it; `tokens` counts those of a prompt. Half, so that what follows fits for a
    while: every cut costs reading all that is kept once more. Where no question is late enough, the last one, if it
    leaves room for an answer; else None.
    """
    questions = [place for place, message in enumerate(messages) if place >= head and message.role is Role.USER]

    def fits(place: int, most: int) -> bool:
        return tokens([*messages[:head], *messages[place:]]) <= most

    # The later it begins, the shorter it is.
    found = bisect_left(questions, True, key=lambda place: fits(place, context // 2))
    if found < len(questions):
        return questions[found]
    return questions[-1] if questions and fits(questions[-1], context - room(context)) else None
