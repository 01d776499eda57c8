"""How much of a conversation fits the context: where it could begin, and in which pieces the rest can be summarised."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from specchat.chat.message import Message, Role
from specchat.chat.reading import SUMMARY_QUESTION

if TYPE_CHECKING:
    from specchat.chat.session import Session

Count = Callable[[Sequence[Message]], int]
"""The tokens of the prompt that asks for what follows these messages."""

_LONGEST_SUMMARY: Final = 400


@dataclass(frozen=True, slots=True)
class Need:
    """What a conversation takes, in tokens and places among its messages."""

    tokens: int
    """Of the whole prompt."""
    first: int | None
    """The question to begin with, as `first_that_fits` finds it."""
    pieces: tuple[int, ...] = ()
    """Where the pieces end in which what comes before it can be summarised; empty where it can't, or where nothing
    comes before it."""
    crowded: bool = False
    """It could be summarised, but what comes after would leave no room for an answer behind the summary."""


def room(context: int) -> int:
    """Tokens that an answer should at least have."""
    return context // 16


def leaves_room(length: int, context: int, max_tokens: int | None = None) -> bool:
    """Whether an answer to a prompt of so many tokens is worth beginning: a few words help nobody."""
    return context - length >= min(room(context), max_tokens or context)


def longest_summary(context: int) -> int:
    """Tokens that a summary may have."""
    return min(_LONGEST_SUMMARY, context // 8)


def _longest_read_again(context: int) -> int:
    # A few tokens more: a text may be taken apart otherwise than it was written.
    return longest_summary(context) * 9 // 8


def need_in(session: Session, messages: Sequence[Message], head: int, thinking: bool | None) -> Need:
    """Measure a conversation in the context of an open model; raises TemplateError."""
    builder = session.builder
    # All the tokens of a summary are for the summary.
    when_summarising = False if builder.template.has_thinking_switch else thinking

    def tokens(some: Sequence[Message]) -> int:
        return len(builder.build(some, enable_thinking=thinking).token_ids)

    def summary_tokens(some: Sequence[Message]) -> int:
        return len(builder.build(some, enable_thinking=when_summarising).token_ids)

    return need_of(messages, head, session.engine.target.n_ctx, tokens, summary_tokens)


def need_of(messages: Sequence[Message], head: int, context: int, tokens: Count, summary_tokens: Count) -> Need:
    """Measure a conversation whose first `head` messages stay in any case.

    `tokens` counts prompts as they are answered, `summary_tokens` as they are summarised.
    """
    first = first_that_fits(messages, head, context, tokens)
    pieces = () if first is None else pieces_that_fit(messages, head, first, context, summary_tokens)
    # Where the last question is kept alone, it may fill all but the room for an answer.
    read = [*with_summary(messages[:head], "…"), *messages[first:]] if pieces else []
    crowded = bool(pieces) and tokens(read) + _longest_read_again(context) > context - room(context)
    return Need(tokens(messages), first, () if crowded else pieces, crowded)


def first_that_fits(messages: Sequence[Message], head: int, context: int, tokens: Count) -> int | None:
    """The question to begin with, so that the prompt fills half of `context` tokens at most.

    The first `head` messages stay before it. Half, so that what follows fits for a while: every cut costs reading all
    that is kept once more. Where no question is late enough, the last one, if it leaves room for an answer; else None.
    """
    questions = [place for place, message in enumerate(messages) if place >= head and message.role is Role.USER]

    def fits(place: int, most: int) -> bool:
        return tokens([*messages[:head], *messages[place:]]) <= most

    # The later it begins, the shorter it is.
    found = bisect_left(questions, True, key=lambda place: fits(place, context // 2))
    if found < len(questions):
        return questions[found]
    return questions[-1] if questions and fits(questions[-1], context - room(context)) else None


def pieces_that_fit(messages: Sequence[Message], head: int, first: int, context: int, tokens: Count) -> tuple[int, ...]:
    """Where the pieces end in which the messages from `head` to before `first` can be read to be summarised.

    Each piece is whole exchanges, read behind the summary of those before it. Empty where one exchange alone is too
    long, or where there is nothing to summarise.
    """
    ends = [place for place in range(head + 1, first) if messages[place].role is Role.USER] + [first]
    before, most = [*messages[:head]], context - longest_summary(context)
    found: list[int] = []
    start = head
    while start < first:
        further = [end for end in ends if end > start]

        def is_too_long(end: int, start: int = start, before: Sequence[Message] = before, most: int = most) -> bool:
            return tokens([*before, *messages[start:end], Message(Role.USER, SUMMARY_QUESTION)]) > most

        # A long conversation is not laid out whole for each piece of it.
        reach = 1
        while reach < len(further) and not is_too_long(further[reach - 1]):
            reach *= 2
        count = bisect_left(further, True, hi=min(reach, len(further)), key=is_too_long)
        if count == 0:
            return ()
        start = further[count - 1]
        found.append(start)
        if not found[1:]:
            # The summary that will stand before the next piece is not written yet: it has its tokens left free.
            before = with_summary(messages[:head], "…")
            most -= _longest_read_again(context)
    return tuple(found)


def with_summary(head: Sequence[Message], summary: str) -> list[Message]:
    """What stands before a piece of a conversation: the system prompt, and the summary in the place of any other."""
    system = [message for message in head if message.role is Role.SYSTEM]
    return [*system, Message(Role.USER, SUMMARY_QUESTION), Message(Role.ASSISTANT, summary)]
