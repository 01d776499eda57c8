"""A long conversation is on the screen before all of it is read, and what was looked for stays where it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from specchat.chat.conversation import Chat as Conversation
from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.tui.opening import Opening
from tests.tui.scripted import Chat, ScriptedWorker, chat
from tests.tui.seeing import on_screen

LONG = 240


def long_conversation(path: Path, title: str = "long", messages: int = LONG) -> Conversation:
    """Messages 0, 1, … of two rows each."""
    with Store(path / "chats.db") as store:
        begun = store.new_chat(model="demo", title=title)
        parent = None
        for number in range(messages):
            role = Role.ASSISTANT if number % 2 else Role.USER
            parent = store.add(begun.id, parent, role, f"{title} {number}.\n\nEnd of it.").id
            store.write(parent, text=f"{title} {number}.\n\nEnd of it.", finish_reason="stop")
        return begun


def loads(running: Chat) -> list[int]:
    """How many messages the screen was given each time, from now on."""
    given: list[int] = []
    transcript = running.app.transcript
    load, complete = transcript.load, transcript.complete

    def loaded(records, at=None):  # type: ignore[no-untyped-def]
        given.append(len(list(records)))
        load(records, at)

    def completed(records):  # type: ignore[no-untyped-def]
        given.append(len(list(records)))
        complete(records)

    transcript.load, transcript.complete = loaded, completed  # type: ignore[method-assign]
    return given


async def all_read(running: Chat, count: int = LONG) -> None:
    """Wait until all of it is there."""
    for _ in range(200):
        if len(running.texts()) == count:
            await running.settle()
            return
        await running.pilot.pause(0.02)
    raise AssertionError(len(running.texts()))


def row_of(running: Chat, words: str) -> int:
    """Where on the screen it can be read."""
    return next(row for row, line in enumerate(on_screen(running).splitlines()) if words in line)


async def test_a_long_conversation_shows_its_end_at_once_and_then_all_of_it(tmp_path: Path) -> None:
    long = long_conversation(tmp_path)
    async with chat(tmp_path) as running:
        shown = loads(running)
        await running.app.talk.open(long.id)
        assert len(running.texts()) == 100
        await all_read(running)
        assert shown == [100, LONG]
        assert "long 239." in on_screen(running)
        await running.submit("And now?")
        assert running.texts()[-3:] == ["long 239.\n\nEnd of it.", "And now?", "Answer 1."]


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set once the rest of a conversation may be read."""
    may, show_all = asyncio.Event(), Opening._show_all

    async def held(self: Opening, chat_id: str, before: int | None) -> None:
        await may.wait()
        await show_all(self, chat_id, before)

    monkeypatch.setattr(Opening, "_show_all", held)
    return may


async def test_a_message_that_was_looked_for_is_shown_with_what_stands_around_it_before_the_rest(
    tmp_path: Path, rest: asyncio.Event
) -> None:
    long = long_conversation(tmp_path)
    async with chat(tmp_path, size=(80, 30)) as running:
        node = running.store.thread(long.id)[80]
        await running.app.talk.open(long.id, node.id)
        await running.settle()
        assert len(running.texts()) == 100, "the rest is not read yet"
        row = row_of(running, "long 80.")
        assert "long 79." not in on_screen(running), "it is the first in sight"
        assert "long 82." in on_screen(running)
        rest.set()
        await all_read(running)
        selected = running.app.transcript.selected
        assert selected is not None
        assert selected.node_id == str(node.id)
        assert row_of(running, "long 80.") == row, "it stays where it was"
        await running.press("alt+up")
        assert "long 79." in on_screen(running)
        await running.submit("And now?")
        assert running.texts()[-2:] == ["And now?", "Answer 1."]


async def test_a_question_that_is_asked_before_the_rest_is_read_stands_behind_the_last_message(
    tmp_path: Path, rest: asyncio.Event
) -> None:
    long = long_conversation(tmp_path)
    async with chat(tmp_path, size=(80, 30)) as running:
        await running.app.talk.open(long.id, running.store.thread(long.id)[80].id)
        await running.settle()
        assert len(running.texts()) == 100
        await running.submit("And now?")
        await running.settle()
        assert running.texts()[-3:] == ["long 239.\n\nEnd of it.", "And now?", "Answer 1."]
        assert "Answer 1." in on_screen(running)
        rest.set()
        await all_read(running, LONG + 2)
        assert running.texts()[-3:] == ["long 239.\n\nEnd of it.", "And now?", "Answer 1."]


async def test_an_answer_that_waited_for_the_model_stands_behind_its_question(
    tmp_path: Path, rest: asyncio.Event
) -> None:
    long = long_conversation(tmp_path)
    worker = ScriptedWorker(loads=False)
    async with chat(tmp_path, worker, size=(80, 30)) as running:
        await running.app.talk.open(long.id)
        await running.submit("And now?")
        await running.app.talk.show_through(running.store.thread(long.id)[80].id)
        await running.settle()
        worker.loaded()
        await running.settle()
        await running.settle()
        assert running.texts()[-3:] == ["long 239.\n\nEnd of it.", "And now?", "Answer 1."]
        rest.set()


async def test_the_cursor_stays_where_the_reader_put_it_while_the_rest_is_read(
    tmp_path: Path, rest: asyncio.Event
) -> None:
    long = long_conversation(tmp_path)
    async with chat(tmp_path) as running:
        await running.app.talk.open(long.id)
        await running.press("alt+up", "alt+up", "alt+up")
        before = running.app.transcript.selected
        assert before is not None
        row = row_of(running, before.text.partition("\n")[0])
        assert len(running.texts()) == 100
        rest.set()
        await all_read(running)
        after = running.app.transcript.selected
        assert after is not None
        assert (after.node_id, row_of(running, before.text.partition("\n")[0])) == (before.node_id, row)


async def test_one_long_conversation_after_the_other_is_opened_at_its_own_message(tmp_path: Path) -> None:
    one, two = long_conversation(tmp_path, "one"), long_conversation(tmp_path, "two")
    async with chat(tmp_path, size=(80, 30)) as running:
        for conversation, number in ((one, 3), (two, 236), (one, 239), (two, 0)):
            node = running.store.thread(conversation.id)[number]
            await running.app.talk.open(conversation.id, node.id)
            await running.settle()
            assert f"{conversation.title} {number}." in on_screen(running)
            if number % 2:
                await all_read(running)
            selected = running.app.transcript.selected
            assert selected is not None
            assert selected.node_id == str(node.id)
            assert f"{conversation.title} {number}." in on_screen(running)
