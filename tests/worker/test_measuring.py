"""How much of a conversation fits the context of the model that is open, and prompts that leave no room."""

from __future__ import annotations

import asyncio

import pytest

from specchat.worker.messages import Ask, Measure, Measured, Prefill
from tests.worker.listener import SMALL, listening, long_text


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
            assert measured.pieces == (4,), "what comes before it fits to be summarised"
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
