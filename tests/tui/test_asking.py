"""Asking: what is sent, shown and stored, and what becomes of a question that has to wait."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from specchat.tui.header import Header
from specchat.tui.prompt import PromptArea
from specchat.tui.transcript import Answer, AnswerRecord
from specchat.worker.messages import Figures, Finished, Load, Loading, Prefill
from tests.tui.scripted import FIGURES, ScriptedWorker, chat
from tests.tui.seeing import status, stored


async def test_asking_shows_stores_and_counts_the_answer(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        assert running.worker.started
        assert running.worker.load() == Load("demo")
        await running.submit("Why is the sky blue?")
        assert running.texts() == ["Why is the sky blue?", "Answer 1."]
        assert running.app.prompt.text == ""
        assert stored(running) == [("user", "Why is the sky blue?"), ("assistant", "Answer 1.")]
        current = running.app.talk.chat
        assert current is not None
        answer = running.store.thread(current.id)[-1]
        assert answer.finish_reason == "stop"
        assert answer.statistics is not None
        assert answer.statistics["alpha"] == 0.75
        assert answer.spans == (("answer", "Answ", "accepted"), ("answer", "er 1.", "bonus"))
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert "2.00× of 30.0 measured" in record.figures_line
        await running.submit("And at night?")
        assert running.worker.asks()[-1].messages == (
            ("user", "Why is the sky blue?"),
            ("assistant", "Answer 1."),
            ("user", "And at night?"),
        )


async def test_what_is_written_while_the_model_loads_is_asked_once_it_is_open(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        running.worker.say(Loading("reading SmolLM2 (98 MB)"))
        await running.settle()
        assert "reading SmolLM2" in status(running)
        await running.submit("First")
        await running.submit("Second")
        assert running.worker.asks() == []
        running.worker.loaded()
        await running.settle()
        await running.settle()
        assert running.texts() == ["First", "Answer 1.", "Second", "Answer 2."]


async def test_esc_stops_and_keeps_what_was_written(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Count")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Prefill(turn, 1024, 4000))
        await running.settle()
        assert "reading 1,024 of 4,000 tokens" in status(running)
        running.worker.write(turn, "one two")
        await running.settle()
        assert "esc stops" in status(running)
        await running.submit("Next question")
        await running.press("escape")
        assert running.app.prompt.text == "Next question", "what waited comes back to the prompt"
        assert stored(running)[-1] == ("assistant", "one two")
        assert not running.waits
        current = running.app.talk.chat
        assert current is not None
        assert running.store.thread(current.id)[-1].finish_reason == "cancelled"


async def test_text_is_saved_while_it_streams(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Count")
        turn = running.worker.asks()[-1].turn
        for number, word in enumerate(("one ", "two ", "three ")):
            running.clock.now += 0.4
            running.worker.write(turn, word)
            await running.settle()
            await asyncio.sleep(0.05)
            assert stored(running)[-1][1] == ("one two " if number else ""), "less than a second is missing"


async def test_the_next_answer_can_be_plain_and_is_compared(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        for speed, key in ((60.0, "ctrl+s"), (30.0, "")):
            await running.submit("Hello")
            ask = running.worker.asks()[-1]
            running.worker.write(ask.turn, "Yes")
            running.worker.finish(ask.turn, figures=replace(FIGURES, tok_s=speed))
            await running.settle()
            if key:
                await running.press(key)
                assert "next: plain" in str(running.app.query_one(Header).render())
        assert [ask.speculate for ask in running.worker.asks()] == [True, False]
        last = running.app.transcript.records[-1]
        assert isinstance(last, AnswerRecord)
        assert "plain: 0.50× the 60.0 tok/s of the answer before (drafting)" in last.figures_line
        await running.submit("And now?")
        assert running.worker.asks()[-1].speculate, "plain holds for one answer"


async def test_settings_reach_the_next_question(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        for command in ("/set temperature 0.2", "/set max-tokens 99", "/system Be brief.", "/think off"):
            await running.submit(command)
        await running.submit("/set temperature hot")
        assert "temperature is 'hot'" in running.toasts[-1]
        assert running.app.prompt.text == "/set temperature hot", "to be put right"
        await running.submit("Hello")
        ask = running.worker.asks()[-1]
        assert (dict(ask.sampling), ask.max_tokens, ask.thinking) == ({"temperature": 0.2}, 99, False)
        assert ask.messages == (("system", "Be brief."), ("user", "Hello"))


async def test_a_file_goes_with_the_next_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Some notes")
    async with chat(tmp_path) as running:
        await running.submit(f"/file {tmp_path / 'missing'}")
        assert "not there" in running.toasts[-1]
        await running.submit(f"/file {tmp_path / 'notes.txt'}")
        assert running.attachments == ["notes.txt"]
        await running.submit("Summarise")
        assert running.worker.asks()[-1].messages[-1][1] == "notes.txt:\n```txt\nSome notes\n```\n\nSummarise"
        assert running.attachments == []
        running.app.prompt.post_message(PromptArea.FilesDropped(running.app.prompt, (tmp_path / "notes.txt",)))
        await running.settle()
        assert running.attachments == ["notes.txt"]
        await running.submit("/file")
        await running.submit("Again")
        assert running.worker.asks()[-1].messages[-1][1] == "Again"


async def test_an_error_is_an_ending_with_a_sentence(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("A very long question")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Finished(turn, "error", Figures(), "The conversation has 9,000 tokens; 4,096 fit."))
        await running.settle()
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert (record.reason, record.error) == ("error", "The conversation has 9,000 tokens; 4,096 fit.")
        running.worker.answers = True
        await running.submit("Shorter")
        assert running.worker.asks()[-1].messages == (("user", "Shorter"),), "unanswered questions are not sent"


async def test_a_question_that_waits_keeps_its_place(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        await running.submit("First")
        await running.press("alt+up", "e", "left_square_bracket")
        assert running.app.prompt.text == ""
        running.worker.loaded()
        await running.settle()
        await running.settle()
        assert stored(running) == [("user", "First"), ("assistant", "Answer 1.")]
        await running.press("ctrl+r")
        running.worker.answers = False
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "left_square_bracket")
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        assert [text for _, text in stored(running)] == ["First", "Answer 2.", "Second", "Answer 3."]


async def test_attached_files_stay_until_a_question_takes_them(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "notes.txt").write_text(f"Notes {place}")
    async with chat(tmp_path) as running:
        await running.submit(f"/file {tmp_path / 'one' / 'notes.txt'}")
        await running.submit(f"/file {tmp_path / 'two' / 'notes.txt'}")
        await running.submit(f"/file {tmp_path / 'two' / 'notes.txt'}")
        await running.submit("/tokens")
        assert running.attachments == ["one/notes.txt", "two/notes.txt"], "what will be sent is shown"
        await running.submit("Compare")
        sent = running.worker.asks()[-1].messages[-1][1]
        assert [sent.count(words) for words in ("Notes one", "Notes two", "Compare")] == [1, 1, 1]
        assert running.attachments == []


async def test_a_cut_answer_says_what_cut_it(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("/set max_tokens 24")
        for tokens, words in ((24, "max_tokens is 24"), (20, "the context is full")):
            await running.submit("Tell me")
            ask = running.worker.asks()[-1]
            running.worker.write(ask.turn, "Once")
            running.worker.finish(ask.turn, "length", replace(FIGURES, tokens=tokens))
            await running.settle()
            current = running.app.talk.chat
            assert current is not None
            for _ in range(2):
                assert words in "\n".join(line.plain for line in running.app.query(Answer).last().rows(70))
                await running.app.talk.open(current.id)
                await running.settle()


async def test_enter_twice_asks_once_and_what_is_typed_after_it_stays(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        prompt = running.app.prompt
        prompt.set_text("Hello")
        prompt.action_submit()
        prompt.action_submit()
        prompt.insert("more")
        await running.settle()
        await running.settle()
        assert running.texts() == ["Hello", "Answer 1."]
        assert prompt.text == "more"
