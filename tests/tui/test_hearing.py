"""What was written is kept, also where the store can't take it at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specchat.chat.message import Role
from specchat.chat.store_file import StoreError
from tests.tui.scripted import Chat, ScriptedWorker, chat


def busy(*_: Any, **__: Any) -> Any:
    raise StoreError("The conversations are in use by another program.")


async def unsaved_answer(running: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that ends while the store is busy."""
    await running.submit("Hello")
    with monkeypatch.context() as patch:
        patch.setattr(running.store, "write", busy)
        running.worker.answer(running.worker.asks()[-1], "It is kept.")
        for _ in range(100):
            if running.app.talk.unsaved:
                break
            await running.pilot.pause(0.02)
    assert "not saved yet" in running.toasts[-1]
    assert running.app.talk.thread()[-1].text == ""


async def test_an_answer_that_could_not_be_saved_is_saved_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await unsaved_answer(running, monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(running.store, "write", busy)
            running.app._hearing.save_again()
            await running.pilot.pause(0.1)
            assert len(running.app.talk.unsaved) == 1, "still busy: it is tried again"
        running.app._hearing.save_again()
        for _ in range(100):
            if not running.app.talk.unsaved:
                break
            await running.pilot.pause(0.02)
        answer = running.app.talk.thread()[-1]
        assert (answer.text, answer.finish_reason) == ("It is kept.", "stop")
        assert "saved now" in running.toasts[-1]


async def test_an_answer_that_could_not_be_saved_is_saved_when_leaving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await unsaved_answer(running, monkeypatch)
        await running.app.talk.close()
        assert running.app.talk.thread()[-1].text == "It is kept."


async def test_a_question_that_waits_for_its_turn_comes_back_where_it_can_not_be_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.submit("Third")
        add = running.store.add

        def refuse_questions(chat: str, parent: int | None, role: Role, *rest: Any, **more: Any) -> Any:
            return busy() if role is Role.USER else add(chat, parent, role, *rest, **more)

        monkeypatch.setattr(running.store, "add", refuse_questions)
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        for _ in range(100):
            if running.app.prompt.text:
                break
            await running.pilot.pause(0.02)
        assert running.app.prompt.text == "Second\n\nThird"
        assert "in use by another program" in running.toasts[-1]
