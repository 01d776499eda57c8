"""A conversation that no longer fits the context: what is left out is said, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.chat.reading import SUMMARY_QUESTION
from specchat.tui.keymap import shown
from specchat.tui.options import ChatOptions
from specchat.worker.messages import Finished, Load
from tests.tui.full_context import KEY, REFUSAL, TALL, FullWorker, fill, read, said_in_passing, told
from tests.tui.scripted import FIGURES, ScriptedWorker, chat
from tests.tui.seeing import offered, on_screen, until


async def test_a_question_without_room_is_offered_ways_out_and_answered_once_there_is_room(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(), size=TALL) as running:
        await fill(running)
        assert offered(running)
        assert REFUSAL in on_screen(running)
        assert "2 oldest messages can be left unread: they are kept" in read(running)
        for words in (f"Leave 2 unread · {shown(KEY)}", "Summarise them", "Larger context", "New chat"):
            assert words in on_screen(running)
        running.app.prompt.focus()
        await running.press(KEY)
        await until(running, "the 2 messages above are no longer read by the model")
        assert told(running) == ["Two", "Answer 2.", "Three", "Answer 3.", "Four"]
        texts = running.texts()
        assert texts[:7] == ["One", "Answer 1.", "Two", "Answer 2.", "Three", "Answer 3.", "Four"], "nothing is lost"
        assert len(texts) == 8
        assert running.app.transcript.records[-1].branch == (1, 1), "the refusal is no answer"
        assert not offered(running)
        assert "2 oldest messages are no longer read" in running.toasts[-1]


async def test_what_is_left_unread_stays_so_for_later_questions_and_after_a_start(tmp_path: Path) -> None:
    worker = FullWorker()
    async with chat(tmp_path, worker, size=TALL) as running:
        await fill(running)
        await running.submit("/trim drop")
        await running.settle()
        worker.most = 9
        await running.submit("Five")
        assert told(running)[:2] == ["Two", "Answer 2."], "the same beginning, which the model has read already"
        assert told(running)[-1] == "Five"
    async with chat(tmp_path, options=ChatOptions(latest=True), size=TALL) as running:
        await until(running, "are no longer read by the model")
        await running.submit("Six")
        assert told(running)[0] == "Two"
        await running.submit("/trim all")
        await running.submit("Seven")
        assert told(running)[0] == "One"
        assert "no longer read" not in on_screen(running)


@pytest.mark.parametrize("how", ["drop", "summarise"])
async def test_it_is_done_without_asking_where_the_user_has_set_so_and_it_is_said(tmp_path: Path, how: str) -> None:
    worker = FullWorker(6)
    worker.words = ["Answer 1.", "Answer 2.", "Answer 3.", *(["Short."] if how == "summarise" else []), "At last."]
    async with chat(tmp_path, worker, ChatOptions(when_full=how), size=TALL) as running:
        for question in ("One", "Two", "Three"):
            await running.submit(question)
        await running.submit("Four")
        for _ in range(100):
            if len(running.texts()) == 8 and not running.waits:
                break
            await running.pilot.pause(0.02)
        assert any("2 oldest messages" in toast for toast in running.toasts)
        assert told(running)[0] == (SUMMARY_QUESTION if how == "summarise" else "Two")
        assert running.texts()[-1] == "At last."
        assert not offered(running)


async def test_a_last_question_that_is_too_long_itself_is_not_answered_by_leaving_others_out(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(fits=False), size=TALL) as running:
        await fill(running)
        shown_words = read(running)
        assert "The last question alone leaves no room for an answer" in shown_words
        assert "unread" not in shown_words.partition("alone")[2]
        assert "Larger context" in shown_words
        await running.press("escape")
        assert not offered(running), "Esc takes the offer away"


async def test_a_larger_context_answers_the_question_that_was_refused(tmp_path: Path) -> None:
    worker = FullWorker()
    async with chat(tmp_path, worker) as running:
        await fill(running)
        worker.most = 99
        await running.submit("/reload larger")
        for _ in range(100):
            if running.worker.load().context and len(running.texts()) == 8 and running.texts()[-1]:
                break
            await running.pilot.pause(0.02)
        assert running.worker.load() == Load("demo", context=6144), "twice would be more than the model was trained for"
        assert told(running)[0] == "One"
        assert running.texts()[-1] == "Answer 5."
        await running.submit("/reload larger")
        await said_in_passing(running, "6,144 are the most")


async def test_what_waits_behind_a_question_without_room_comes_back_into_the_prompt(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(), size=TALL) as running:
        for question in ("One", "Two", "Three"):
            await running.submit(question)
        running.worker.answers = False
        await running.submit("Four")
        await running.submit("Five")
        running.worker.answers = True
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        assert running.app.prompt.text == "Five"
        assert offered(running)


async def test_another_conversation_has_nothing_to_do_with_the_offer(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(), size=TALL) as running:
        await fill(running)
        await running.press("ctrl+n")
        assert not offered(running)
        await running.submit("/trim")
        assert "makes no sense just now" in running.toasts[-1]


async def test_room_can_be_made_before_it_is_needed(tmp_path: Path) -> None:
    async with chat(tmp_path, FullWorker(most=9), size=TALL) as running:
        await running.submit("One")
        await running.submit("Two")
        await running.press(KEY)
        assert "Leave 2 unread" in on_screen(running)
        await running.press(KEY)
        await until(running, "are no longer read by the model")
        assert len(running.worker.asks()) == 2, "nothing was asked for it"
        await running.submit("/trim")
        assert "There is nothing more before the last question" in running.toasts[-1]
        assert "The 2 messages before are left out already." in running.toasts[-1]
        await running.submit("/trim dorp")
        assert "drop, summarise or all" in running.toasts[-1]


async def test_an_answer_that_fills_the_context_says_what_can_be_done(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Long")
        running.worker.write(1, "Half")
        running.worker.say(Finished(1, "length", replace(FIGURES), context_full=True))
        await running.settle()
        assert "/trim" in running.toasts[-1]
        assert "/reload larger" in running.toasts[-1]


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
async def test_the_offer_leaves_room_for_the_prompt_on_a_small_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chat(tmp_path, FullWorker(), size=size) as running:
        await fill(running)
        for part in ("#prompt", "Notice", "Footer"):
            region = running.app.base.query_one(part).region
            assert region.height
            assert region.bottom <= size[1]
        for words in ("Leave 2 unread", "Summarise them", "Larger context", "New chat"):
            assert words in on_screen(running)
