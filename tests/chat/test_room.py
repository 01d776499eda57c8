"""How much of a conversation fits a context: where it is cut, and in which pieces the rest can be summarised."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from specchat.chat.message import Message, Role
from specchat.chat.reading import SUMMARY_QUESTION
from specchat.chat.room import (
    Need,
    first_that_fits,
    leaves_room,
    longest_summary,
    need_of,
    pieces_that_fit,
    room,
    with_summary,
)

SIZE_OF_THE_QUESTION = 10


def conversation(*sizes: int) -> list[Message]:
    """Questions and answers in turn, each of so many tokens."""
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(roles[place % 2], "x" * size) for place, size in enumerate(sizes)]


def tokens(messages: Sequence[Message]) -> int:
    """One a letter; the question for a summary has ten."""
    return sum(SIZE_OF_THE_QUESTION if one.content == SUMMARY_QUESTION else len(one.content) for one in messages)


def test_as_much_is_kept_as_fills_half_of_the_context_and_it_begins_with_a_question() -> None:
    messages = conversation(10, 20, 10, 20, 10, 20, 10)
    assert first_that_fits(messages, 0, 80, tokens) == 4
    assert first_that_fits(messages, 0, 140, tokens) == 2
    assert first_that_fits(messages, 0, 400, tokens) == 0
    system = [Message(Role.SYSTEM, "x" * 30), *messages]
    assert first_that_fits(system, 1, 140, tokens) == 5, "what always stays counts"


def test_the_last_question_is_kept_alone_where_it_leaves_room_for_an_answer() -> None:
    messages = conversation(10, 20, 60)
    assert first_that_fits(messages, 0, 100, tokens) == 2
    assert first_that_fits(messages, 0, 60 + room(63), tokens) == 2
    assert first_that_fits(messages, 0, 60, tokens) is None
    assert first_that_fits([], 0, 60, tokens) is None


def test_an_answer_of_a_few_words_is_no_answer_unless_no_more_was_asked_for() -> None:
    assert leaves_room(960, 1024)
    assert not leaves_room(961, 1024)
    assert leaves_room(1022, 1024, max_tokens=2)
    assert not leaves_room(1023, 1024, max_tokens=2)


def test_what_fits_at_once_is_summarised_at_once_and_else_in_pieces_of_whole_exchanges() -> None:
    messages = conversation(100, 200, 100, 200, 100, 200, 10)
    assert pieces_that_fit(messages, 0, 6, 1200, tokens) == (6,)
    # 1,000 less 125 for the summary: two exchanges and the question.
    assert pieces_that_fit(messages, 0, 6, 1000, tokens) == (4, 6)
    assert pieces_that_fit(messages, 0, 6, 600, tokens) == (2, 4, 6)


def test_nothing_is_summarised_where_one_exchange_alone_is_too_long_or_there_is_none() -> None:
    messages = conversation(100, 200, 100, 800, 10)
    assert pieces_that_fit(messages, 0, 4, 900, tokens) == ()
    assert pieces_that_fit(messages, 0, 2, 900, tokens) == (2,)
    assert pieces_that_fit(messages, 0, 0, 900, tokens) == ()


def test_a_conversation_is_measured_as_it_is_answered_and_as_it_is_summarised() -> None:
    messages = conversation(100, 200, 100, 200, 100)
    assert need_of(messages, 0, 500, tokens, tokens) == Need(700, 4, (2, 4))
    assert need_of(messages, 0, 500, tokens, lambda some: 2 * tokens(some)) == Need(700, 4, ())
    assert need_of(messages, 0, 90, tokens, tokens) == Need(700, None, ())


def test_no_summary_is_offered_that_would_leave_the_last_question_no_room() -> None:
    beside = SIZE_OF_THE_QUESTION + longest_summary(1000) * 9 // 8 + 1
    most = 1000 - room(1000) - beside
    fits, crowded = (need_of(conversation(100, 300, size), 0, 1000, tokens, tokens) for size in (most, most + 1))
    assert fits == Need(400 + most, 2, (2,))
    assert crowded == Need(401 + most, 2, (), crowded=True), "it fits alone"
    after = [*with_summary([], "x" * longest_summary(1000)), *conversation(most)]
    assert leaves_room(tokens(after), 1000)


@given(st.lists(st.integers(1, 300), min_size=2, max_size=40), st.integers(0, 100), st.integers(100, 2000))
def test_every_piece_can_be_read_behind_the_longest_summary_and_all_of_them_are_all_of_it(
    sizes: list[int], system: int, context: int
) -> None:
    messages = [Message(Role.SYSTEM, "x" * system), *conversation(*sizes)]
    first = len(messages) - (1 if len(sizes) % 2 else 0)
    pieces = pieces_that_fit(messages, 1, first, context, tokens)
    start, summary = 1, 0
    for end in pieces:
        assert messages[start].role is Role.USER
        length = system + summary + tokens(messages[start:end]) + SIZE_OF_THE_QUESTION
        assert length + longest_summary(context) <= context
        start, summary = end, SIZE_OF_THE_QUESTION + longest_summary(context)
    assert not pieces or pieces[-1] == first
    if not pieces:
        room_left = context - system - 3 * longest_summary(context) - 2 * SIZE_OF_THE_QUESTION - 2
        assert any(tokens(messages[at : at + 2]) > room_left for at in range(1, first, 2)), "one alone is too long"
