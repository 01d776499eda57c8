"""Summaries in the place of what no longer fits: only where they can be written, and they say what they stand for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.chat.reading import SUMMARY_QUESTION
from specchat.tui.options import ChatOptions
from specchat.worker.messages import Died, Finished
from tests.tui.full_context import TALL, CountingWorker, FullWorker, fill, read, said_in_passing, told
from tests.tui.scripted import FIGURES, ScriptedWorker, chat
from tests.tui.seeing import offered, on_screen, until


async def test_the_model_summarises_what_it_no_longer_reads(tmp_path: Path) -> None:
    worker = FullWorker()
    async with chat(tmp_path, worker, size=TALL) as running:
        await fill(running)
        running.worker.answers = False
        await running.submit("/trim summarise")
        assert told(running) == ["One", "Answer 1.", SUMMARY_QUESTION], "what it has read already comes first"
        assert "summarising the 2 oldest messages" in on_screen(running)
        assert not offered(running)
        running.worker.answers = True
        worker.most = 9
        running.worker.answer(running.worker.asks()[-1], "We counted to one.")
        await until(running, "We counted to one.")
        assert "the model reads this summary" in read(running)
        assert told(running) == [
            SUMMARY_QUESTION, "We counted to one.", "Two", "Answer 2.", "Three", "Answer 3.", "Four",
        ]  # fmt: skip
        await said_in_passing(running, "2 oldest messages are summarised")
        assert "We counted to one." not in running.texts(), "it is no message of the conversation"
        assert len(running.texts()) == 8


async def test_what_does_not_fit_at_once_is_summarised_in_steps(tmp_path: Path) -> None:
    worker = FullWorker(pieces=2)
    async with chat(tmp_path, worker, size=TALL) as running:
        await fill(running)
        assert "A summary takes 2 steps." in read(running)
        running.worker.answers = False
        await running.submit("/trim summarise")
        assert told(running) == ["One", "Answer 1.", SUMMARY_QUESTION]
        assert "step 1 of 2" in on_screen(running)
        running.worker.answer(running.worker.asks()[-1], "We counted to one.")
        await running.settle()
        assert told(running) == [SUMMARY_QUESTION, "We counted to one.", "Two", "Answer 2.", SUMMARY_QUESTION]
        assert "step 2 of 2" in on_screen(running)
        running.worker.answers = True
        running.worker.answer(running.worker.asks()[-1], "We counted to two.")
        await until(running, "We counted to two.")
        assert told(running) == [SUMMARY_QUESTION, "We counted to two.", "Three", "Answer 3.", "Four"]
        await said_in_passing(running, "4 oldest messages are summarised")


async def test_no_summary_is_offered_of_what_does_not_fit_to_be_read_for_one(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(pieces=0), size=TALL) as running:
        await fill(running)
        assert "They can't be summarised: they are too long to be read again for that." in read(running)
        assert "Leave 2 unread" in on_screen(running)
        assert "Summarise them" not in on_screen(running)
        asks = len(running.worker.asks())
        await running.submit("/trim summarise")
        await running.settle()
        assert "can't be summarised" in running.toasts[-1]
        assert len(running.worker.asks()) == asks, "nothing was tried that can't succeed"
        assert offered(running)


async def test_where_a_summary_was_set_but_can_not_be_the_user_is_asked(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(pieces=0), ChatOptions(when_full="summarise"), size=TALL) as running:
        await fill(running)
        assert offered(running)
        assert "Leave 2 unread" in on_screen(running)
        assert len(running.texts()) == 8, "nothing is left out unasked"


@pytest.mark.parametrize("when_full", ["ask", "summarise"])
async def test_a_long_question_beside_which_no_summary_fits_is_answered_after_leaving_others_out(
    tmp_path: Path, when_full: str
) -> None:
    worker = CountingWorker()
    async with chat(tmp_path, worker, ChatOptions(when_full=when_full), size=TALL) as running:
        await running.submit("One. " * 150)
        await running.submit("x" * 3500)
        await running.settle()
        await running.settle()
        assert offered(running)
        assert "can't be summarised" in read(running)
        assert "Summarise them" not in on_screen(running)
        asks = len(worker.asks())
        await running.submit("/trim summarise")
        await running.settle()
        assert len(worker.asks()) == asks, "nothing was tried that can't succeed"
        await running.submit("/trim drop")
        await until(running, f"Answer {asks + 1}.")
        assert told(running) == ["x" * 3500]


async def test_a_long_question_is_answered_behind_the_longest_summary_where_that_is_offered(tmp_path: Path) -> None:
    worker = CountingWorker(words=["Yes.", "s" * 400, "At last."])
    async with chat(tmp_path, worker, ChatOptions(when_full="summarise"), size=TALL) as running:
        await running.submit("One. " * 150)
        await running.submit("x" * 3250)
        for _ in range(100):
            if running.texts()[-1] == "At last.":
                break
            await running.pilot.pause(0.02)
        assert running.texts()[-1] == "At last."
        assert told(running) == [SUMMARY_QUESTION, "s" * 400, "x" * 3250]


async def test_what_ends_an_answer_early_does_not_end_a_summary(tmp_path: Path) -> None:
    worker = FullWorker()
    stopping = replace(ChatOptions().answers, stop=("e",))
    async with chat(tmp_path, worker, ChatOptions(answers=stopping), size=TALL) as running:
        await fill(running)
        worker.words = ["We counted to one.", "At last."]
        await running.submit("/trim summarise")
        await until(running, "At last.")
        assert [ask.stop_strings for ask in worker.asks()[-2:]] == [(), ("e",)]


async def test_a_summary_is_not_said_to_stand_for_what_was_left_out_before(tmp_path: Path) -> None:
    worker = FullWorker()
    async with chat(tmp_path, worker, size=TALL) as running:
        await fill(running)
        await running.submit("/trim drop")
        await until(running, "the 2 messages above are no longer read")
        worker.words = ["We counted to two."]
        await running.submit("/trim summarise")
        await until(running, "We counted to two.")
        assert "in the place of 2 of the 4 messages above; the other 2 are not in it and no longer read:" in read(
            running
        )


async def test_what_is_left_out_after_a_summary_is_not_said_to_be_summarised(tmp_path: Path) -> None:
    worker = FullWorker()
    async with chat(tmp_path, worker, size=TALL) as running:
        await fill(running)
        worker.words = ["We counted to one.", "Answer 4."]
        await running.submit("/trim summarise")
        await until(running, "Answer 4.")
        await running.submit("/trim drop")
        await until(running, "of the 4 messages above")
        assert "in the place of the first 2 of the 4 messages above" in read(running)
        assert "the 2 after them are no longer read:" in read(running)
        assert "We counted to one." in on_screen(running)
        await said_in_passing(
            running, "2 more messages are no longer read, to make room. The summary of those before is still"
        )
        worker.most = 9
        await running.submit("Five")
        assert told(running)[:3] == [SUMMARY_QUESTION, "We counted to one.", "Three"]


async def test_nothing_else_is_begun_out_of_sight_while_something_is(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False), size=TALL) as running:
        talk = running.app.talk
        aside = talk.begin_aside("measuring")
        with pytest.raises(ValueError, match=r"under way already: measuring\. Stop it first"):
            talk.begin_aside("summarising")
        assert talk.aside is aside, "the first one goes on"
        await talk.end_aside()
        await running.submit("One")
        with pytest.raises(ValueError, match="An answer is being written"):
            talk.begin_aside("summarising")
        assert talk.aside is None


@pytest.mark.parametrize("end", ["stopped", "dead", "empty"])
async def test_a_summary_that_does_not_come_changes_nothing(tmp_path: Path, end: str) -> None:
    async with chat(tmp_path, FullWorker(), size=TALL) as running:
        await fill(running)
        running.worker.answers = False
        await running.submit("/trim summarise")
        turn = running.worker.asks()[-1].turn
        if end == "stopped":
            await running.press("escape")
        elif end == "dead":
            running.worker.say(Died("It was killed."))
        else:
            running.worker.say(Finished(turn, "stop", FIGURES))
        await running.settle()
        await running.settle()
        words = {"stopped": "nothing has changed", "dead": "the engine ended", "empty": "the model wrote nothing"}[end]
        await said_in_passing(running, words)
        current = running.app.talk.chat
        assert current is not None
        assert running.store.cuts(current.id) == {}
        assert not running.app.talk.busy
        assert offered(running), "the ways out are there again, or those to a model"
