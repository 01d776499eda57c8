"""Deleting a message: asked first, what follows it goes, other branches stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.chat.store_file import StoreError
from specchat.tui.options import ChatOptions
from tests.tui.scripted import Chat, ScriptedWorker, chat
from tests.tui.seeing import on_screen, until


async def gone(running: Chat, count: int) -> None:
    """Wait until so many messages are left."""
    for _ in range(200):
        if len(running.texts()) == count and any("message is deleted" in toast for toast in running.toasts):
            return
        await running.pilot.pause(0.02)
    raise AssertionError(running.texts())


async def test_a_message_goes_with_what_follows_it_after_asking(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        for question in ("One", "Two", "Three"):
            await running.submit(question)
        await running.press("alt+up", "alt+up", "alt+up", "alt+up", "d")
        await until(running, "Delete your message “Two” and the 3 that follow it")
        await running.press("n")
        assert len(running.texts()) == 6
        await running.press("d")
        await until(running, "be brought back")
        await running.press("y")
        await gone(running, 2)
        assert running.texts() == ["One", "Answer 1."]
        selected = running.app.transcript.selected
        assert selected is not None
        assert selected.text == "Answer 1.", "the cursor stays where the message was"
        await running.submit("Other")
        assert [text for _, text in running.worker.asks()[-1].messages] == ["One", "Answer 1.", "Other"]
        assert running.store.search("Two", 9) == []


async def test_the_branch_beside_a_deleted_one_is_shown(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("One")
        await running.press("ctrl+r")
        assert running.texts() == ["One", "Answer 2."]
        await running.press("alt+up", "d")
        await until(running, "Delete the answer “Answer 2.”")
        await running.press("y")
        await gone(running, 2)
        assert running.texts() == ["One", "Answer 1."]
        assert running.app.transcript.records[-1].branch == (1, 1)


async def test_deleting_the_first_message_leaves_an_empty_conversation_to_go_on_in(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("A secret")
        await running.press("alt+up", "alt+up", "d")
        await until(running, "A secret")
        await running.press("y")
        await gone(running, 0)
        assert running.shown["welcome"]
        current = running.app.talk.chat
        assert current is not None
        assert running.store.chat(current.id).title == "", "its beginning was the title"
        await running.submit("Anew")
        assert running.texts() == ["Anew", "Answer 2."]
        assert running.store.chat(current.id).title == "Anew"


async def test_from_the_prompt_the_last_message_is_deleted_with_all_it_left(tmp_path: Path) -> None:
    forgotten: list[int] = []
    async with chat(tmp_path) as running:

        def forget(node_id: int) -> None:
            forgotten.append(node_id)
            running.store.remove(node_id)

        running.app.talk.options = ChatOptions(forget_message=forget)
        await running.submit("One")
        last = running.app.talk.thread()[-1].id
        await running.submit("/remove")
        await until(running, "Answer 1.")
        await running.press("y")
        await gone(running, 1)
        assert forgotten == [last]


async def test_nothing_is_deleted_while_an_answer_is_written_or_where_it_can_not_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path, ScriptedWorker()) as running:
        await running.submit("One")

        def busy(*_: object) -> None:
            raise StoreError("Another program is busy.")

        with monkeypatch.context() as patch:
            patch.setattr(running.store, "remove", busy)
            await running.submit("/remove")
            await running.press("y")
            for _ in range(100):
                if "Another program is busy." in running.toasts:
                    break
                await running.pilot.pause(0.02)
        assert "Another program is busy." in running.toasts
        assert len(running.texts()) == 2
        running.worker.answers = False
        await running.submit("Two")
        await running.press("alt+up", "d")
        assert running.app.screen is running.app.base
        assert "Delete" not in on_screen(running)
