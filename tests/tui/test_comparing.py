"""/bench: what drafting is worth on the model that is open, measured without holding up the screen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specchat.worker.messages import Ask, Finished, Loaded
from tests.tui.scripted import FIGURES, ScriptedWorker, chat
from tests.tui.seeing import on_screen, until


class MeasuredWorker(ScriptedWorker):
    """Drafting 90 tokens a second, plain 30."""

    def answer(self, ask: Ask, text: str | None = None) -> None:
        speed = 90.0 if ask.speculate else 30.0
        self.write(ask.turn, text or "Some words.", figures=replace(FIGURES, tok_s=speed))
        self.finish(ask.turn, figures=replace(FIGURES, tok_s=speed))


async def test_drafting_is_measured_against_plain_decoding_on_the_same_questions(tmp_path: Path) -> None:
    async with chat(tmp_path, MeasuredWorker()) as running:
        await running.submit("/bench 48")
        await until(running, "drafting is worth 3.00× here")
        asks = running.worker.asks()[1:]
        assert {ask.max_tokens for ask in asks} == {48}
        assert all(not ask.chat for ask in asks), "nothing of it is kept to draft from"
        pairs = [(ask.messages, ask.speculate) for ask in asks]
        questions = {messages for messages, _ in pairs}
        assert len(questions) == 3
        assert sorted(pairs) == sorted((messages, how) for messages in questions for how in (True, False))
        assert len({how for _, how in pairs[::2]}) == 2, "neither way always comes first"
        for words in ("prose", "code", "copy", "90.0", "30.0", "0.75"):
            assert words in on_screen(running)
        await running.press("escape")
        assert running.texts() == []
        assert running.store.chats(9) == [], "no conversation was begun"
        await running.submit("/bench last")
        await until(running, "drafting is worth 3.00× here")


async def test_esc_stops_measuring_and_what_was_asked_meanwhile_comes_next(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("/bench")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Finished(turn, "length", FIGURES))
        await until(running, "measuring 1 of 6: prose, auto · esc stops")
        running.worker.write(running.worker.asks()[-1].turn, "Some")
        await until(running, "24 tok ")
        await running.submit("Hello")
        assert len(running.worker.asks()) == 2, "a question waits until it is over"
        await running.press("escape")
        await running.settle()
        assert "stopped" in running.toasts[-1]
        assert running.app.prompt.text == "Hello", "what waited comes back, as from an answer"
        running.worker.answers = True
        await running.press("enter")
        assert running.texts() == ["Hello", f"Answer {running.worker.asks()[-1].turn}."]


async def test_the_result_does_not_come_over_what_is_being_written(tmp_path: Path) -> None:
    worker = MeasuredWorker(answers=False)
    async with chat(tmp_path, worker) as running:
        await running.submit("/bench")
        running.app.prompt.set_text("half a sentence")
        worker.answers = True
        worker.answer(worker.asks()[-1])
        for _ in range(100):
            if any("/bench last" in toast for toast in running.toasts):
                break
            await running.pilot.pause(0.02)
        assert any("worth 3.00×" in toast for toast in running.toasts)
        assert running.app.screen is running.app.base
        assert running.app.prompt.text == "half a sentence"


async def test_what_can_not_be_measured_is_said(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("/bench last")
        assert "Nothing was measured yet" in running.toasts[-1]
        await running.submit("/bench lots")
        assert "16 to 1,024" in running.toasts[-1]
        await running.submit("/bench")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Finished(turn, "error", FIGURES, "The graphics card is gone."))
        for _ in range(100):
            if any("graphics card" in toast for toast in running.toasts):
                break
            await running.pilot.pause(0.02)
        assert "Nothing was measured: The graphics card is gone." in running.toasts
        assert not running.app.talk.busy
        running.worker.say(Loaded("demo", "Demo", "demo.gguf", None, "none", 4096, 0.1, False))
        await running.settle()
        await running.submit("/bench")
        assert "nothing to compare" in running.toasts[-1]
