"""How much of a conversation fits the context: the place of the cut, and prompts that leave no room for an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from specchat.chat.message import Message, Role
from specchat.worker.measuring import first_that_fits, room
from specchat.worker.messages import Ask, Measure, Measured, Prefill
from tests.worker.listener import SMALL, listening, long_text


def conversation(*sizes: int) -> list[Message]:
    """Questions and answers in turn, each of so many tokens."""
    roles = (Role.USER, Role.ASSISTANT)
    return [Message(roles[place % 2], "x" * size) for place, size in enumerate(sizes)]


def tokens(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


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


@pytest.mark.usefixtures("demo")
def test_a_conversation_without_room_is_measured_cut_and_answered_from_what_was_read_before() -> None:
    said = [("user", long_text(50)), ("assistant", "Yes."), ("user", long_text(45)), ("assistant", "No.")]

    async def run() -> None:
        async with listening(SMALL) as listener:
            whole = (*said, ("user", long_text(150)))
            refused = await listener.answer(Ask(1, "", whole, max_tokens=100))
            assert refused.context_full
            assert (refused.error or "").endswith("tokens and the context holds 1,024.")
            listener.worker.send(Measure(7, whole))
            measured = await listener.until(Measured)
            assert (measured.number, measured.first) == (7, 4), "the last question takes more than half"
            assert measured.tokens > 960
            kept = await listener.answer(Ask(2, "", whole[4:], max_tokens=3))
            assert kept.figures.tokens == 3
            # An answer and a question more: what was kept is not read again.
            longer = (*whole[4:], ("assistant", listener.text(2)), ("user", "And?"))
            await listener.answer(Ask(3, "", longer, max_tokens=1))
            totals = [event.total for event in listener.events if isinstance(event, Prefill) and event.turn == 3]
            assert totals[-1] < 60

    asyncio.run(run())


@pytest.mark.usefixtures("demo")
def test_a_measure_without_a_model_is_a_sentence() -> None:
    async def run() -> None:
        async with listening(None) as listener:
            listener.worker.send(Measure(1, (("user", "Hello?"),)))
            assert "No model is open" in (await listener.until(Measured)).error

    asyncio.run(run())
