"""A conversation that no longer fits the context: what is left out is said, and nothing is lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.chat.reading import SUMMARY_QUESTION
from specchat.tui.keymap import resolve, shown
from specchat.tui.options import ChatOptions
from specchat.worker.messages import Ask, Died, Figures, Finished, Load, Measure, Measured, Request
from tests.tui.scripted import FIGURES, Chat, ScriptedWorker, chat
from tests.tui.test_screens import on_screen, until

TALL = (90, 60)
KEY = resolve()["trim"][0]
REFUSAL = "The prompt has 5,000 tokens and the context holds 4,096."


class FullWorker(ScriptedWorker):
    """Answers until the conversation has `most` messages, and measures as a real one does."""

    def __init__(self, most: int = 5, *, fits: bool = True) -> None:
        super().__init__()
        self.most, self.fits = most, fits

    def answer(self, ask: Ask, text: str | None = None) -> None:
        length = len(ask.messages) - (2 if ask.messages[0][1] == SUMMARY_QUESTION else 0)
        if length > self.most and text is None:
            self.say(Finished(ask.turn, "error", Figures(), REFUSAL, context_full=True))
        else:
            super().answer(ask, text)

    def send(self, request: Request) -> None:
        super().send(request)
        if isinstance(request, Measure):
            first = request.head + (2 if len(request.messages) - request.head > 2 else 0)
            self.say(Measured(request.number, 5000, first if self.fits else None))


def offered(running: Chat) -> bool:
    """Whether the box over the prompt is there."""
    return running.shown["notice"]


def told(running: Chat) -> list[str]:
    return [text for _, text in running.worker.asks()[-1].messages]


def read(running: Chat) -> str:
    """What can be read, in one line."""
    return " ".join(on_screen(running).replace("▌", " ").replace("▏", " ").split())


async def said(running: Chat, sentence: str) -> None:
    """Wait until it is said in passing."""
    for _ in range(100):
        if any(sentence in toast for toast in running.toasts):
            return
        await running.pilot.pause(0.02)
    raise AssertionError(running.toasts)


async def fill(running: Chat) -> None:
    """Ask until there is no room."""
    for question in ("One", "Two", "Three", "Four"):
        await running.submit(question)
    await running.settle()


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
        await said(running, "2 oldest messages are summarised")
        assert "We counted to one." not in running.texts(), "it is no message of the conversation"
        assert len(running.texts()) == 8


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
        await said(running, words)
        current = running.app.talk.chat
        assert current is not None
        assert running.store.cuts(current.id) == {}
        assert not running.app.talk.busy
        assert offered(running), "the ways out are there again, or those to a model"


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
        await said(running, "6,144 are the most")


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
        assert "nothing older" in running.toasts[-1]
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
