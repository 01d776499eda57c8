"""Asking through the worker: the text of the command line, figures, and errors as sentences. The real demo."""

from __future__ import annotations

import asyncio
import time

import psutil
import pytest

from specchat.worker.messages import (
    Ask,
    Cancel,
    Finished,
    Load,
    Loaded,
    LoadFailed,
    Loading,
    Note,
    Prefill,
    Tokens,
)
from tests.worker.listener import STORY, Listener, listening, long_text, question


def test_an_answer_is_told_in_spans_with_figures_and_a_plain_one_is_the_same_text() -> None:
    async def run() -> None:
        # A fixed depth drafts whatever the machine is doing.
        async with listening(Load("demo", draft_tokens=4, threads=1)) as listener:
            drafted = await listener.answer(question(1, STORY, max_tokens=24))
            plain = await listener.answer(question(2, STORY, max_tokens=24, speculate=False))
            again = await listener.answer(question(3, STORY, max_tokens=24))
        _check_drafted(listener, drafted)
        _check_plain(listener, plain)
        assert listener.text(1) == listener.text(2) == listener.text(3)
        assert again.figures.accepted > 0

    asyncio.run(run())


def _check_drafted(listener: Listener, finished: Finished) -> None:
    figures = finished.figures
    assert (finished.reason, finished.error) == ("length", None)
    assert figures.tokens == 24
    assert figures.accepted > 0
    assert figures.alpha == figures.accepted / figures.tested
    assert figures.context_used == figures.prompt_tokens + 24
    assert figures.tokens_per_step == 24 / figures.steps
    assert sum(figures.depths.values()) == figures.steps
    assert figures.methods == {figures.source: sum(n for depth, n in figures.depths.items() if depth)}
    assert figures.used_bytes > 50e6
    spans = [span for event in listener.events if isinstance(event, Tokens) and event.turn == 1 for span in event.spans]
    assert {"plain", "accepted"} <= {span.origin for span in spans}


def _check_plain(listener: Listener, finished: Finished) -> None:
    assert (finished.figures.drafted, finished.figures.depths) == (0, {0: 24})
    assert (finished.figures.speedup, finished.figures.plain_tok_s) == (None, None)
    assert finished.figures.tok_s is not None
    spans = [span for event in listener.events if isinstance(event, Tokens) and event.turn == 2 for span in event.spans]
    assert {span.origin for span in spans} == {"plain"}


def test_a_conversation_goes_on_from_the_very_tokens_the_model_wrote() -> None:
    # So hot that the tokens are hardly ever those that the text would be cut into.
    hot = {"temperature": 50.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}

    async def run() -> None:
        async with listening() as listener:
            await listener.answer(question(1, "Say anything.", sampling=hot, seed=8, max_tokens=16))
            told = (("user", "Say anything."), ("assistant", listener.text(1)), ("user", "And then?"))
            await listener.answer(Ask(2, "chat", told, max_tokens=2))
        totals = [event.total for event in listener.events if isinstance(event, Prefill) and event.turn == 2]
        assert totals
        # The end of the turn and the new question, nothing of the answer.
        assert totals[-1] < 20

    asyncio.run(run())


def test_a_stop_is_quick_while_writing_and_while_reading_a_long_prompt() -> None:
    async def run() -> None:
        async with listening(Load("demo", context=8192)) as listener:
            listener.worker.send(question(1, STORY))
            await listener.until(Tokens)
            assert await _stopped_after(listener, 1) < 0.3
            written = listener.text(1)
            assert written
            listener.worker.send(question(2, long_text(1000)))
            listener.worker.send(question(3, "Queued."))
            await asyncio.sleep(0.4)
            listener.worker.send(Cancel(3))
            assert await _stopped_after(listener, 2) < 1
            assert (await listener.until(Finished)).reason == "cancelled"
            # What is left of it disturbs no one: not the next answer, and not one with the number of a stopped one.
            assert (await listener.answer(question(2, "Say hello.", max_tokens=5))).figures.tokens == 5
        assert listener.text(1) == written

    asyncio.run(run())


async def _stopped_after(listener: Listener, turn: int) -> float:
    started = time.monotonic()
    listener.worker.send(Cancel(turn))
    finished = await listener.until(Finished)
    assert (finished.turn, finished.reason, finished.error) == (turn, "cancelled", None)
    return time.monotonic() - started


def test_what_goes_wrong_is_told_in_a_sentence_and_nothing_is_lost() -> None:
    async def run() -> None:
        async with listening(None) as listener:
            assert "No model is open" in ((await listener.answer(question(1, "Hello?"))).error or "")
            for load, words in (
                (Load("no-such-model"), "no-such-model"),
                (Load("demo", method="none", draft="demo"), "--method none"),
                (Load("demo", kv_type="f15"), "f15"),
            ):
                listener.worker.send(load)
                assert words in (await listener.until(LoadFailed)).reason
            listener.worker.send(Load("demo", method="none", context=256, threads=1))
            loaded = await listener.until(Loaded)
            assert (loaded.context, loaded.draft, loaded.method) == (256, None, "none")
            for ask, words in (
                (question(2, long_text(100)), "the context holds 256"),
                (question(3, "Hot?", sampling={"temperature": -1.0}), "temperature is -1.0"),
                (question(4, "Stop?", stop_strings=("",)), "stop string may not be empty"),
            ):
                finished = await listener.answer(ask)
                assert finished.reason == "error"
                assert words in (finished.error or "")
            assert (await listener.answer(question(5, "Hi.", max_tokens=3))).figures.tokens == 3
        assert listener.count(Loading) >= 2
        assert not any("fault in specchat" in str(event) for event in listener.events)

    asyncio.run(run())


def test_notes_come_after_the_answer_that_gave_rise_to_them(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    # A place for past text that is a file: it can't be written.
    async def run() -> Listener:
        async with listening(Load("demo", method="suffix", threads=1)) as listener:
            await listener.answer(question(1, "Hi.", max_tokens=3))
            await listener.until(Note, 10)
            return listener

    monkeypatch.setenv("XDG_DATA_HOME", "/dev/null")
    listener = asyncio.run(run())
    assert isinstance(listener.events[-2], Finished)


def test_another_model_in_the_same_child_gets_back_the_memory_of_the_one_before() -> None:
    async def run() -> None:
        async with listening(Load("demo", context=256, method="none", threads=1)) as listener:
            pid = listener.worker.pid
            alone = psutil.Process(pid).memory_info().rss
            listener.worker.send(Load("demo", context=8192, threads=1))
            await listener.until(Loaded)
            await listener.answer(question(1, STORY, max_tokens=20))
            both = psutil.Process(pid).memory_info().rss
            listener.worker.send(Load("demo", context=256, method="none", threads=1))
            await listener.until(Loaded)
            after = psutil.Process(pid).memory_info().rss
            assert listener.worker.pid == pid
        assert both > 2 * alone
        assert after < 1.1 * alone

    asyncio.run(run())
