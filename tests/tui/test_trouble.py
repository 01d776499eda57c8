"""What goes wrong is a sentence: a dead engine, a full disk, wrong words, faults of the program."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import pytest

from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.chat.store_file import StoreError, StoreFull
from specchat.chat.text import visible
from specchat.tui.notice import Notice
from specchat.tui.options import ChatOptions
from specchat.tui.run import run_chat
from specchat.tui.transcript import AnswerRecord
from specchat.worker.messages import Died, Load, LoadFailed, Note
from tests.tui.scripted import ScriptedWorker, chat
from tests.tui.seeing import alive, offered, stored


async def test_a_dead_worker_costs_the_answer_only(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        turn = running.worker.asks()[-1].turn
        running.worker.write(turn, "Half an ans")
        running.worker.say(Died("The engine was killed, perhaps for want of memory.", turn))
        await running.settle()
        notice = running.app.query_one(Notice)
        assert offered(running)
        assert "want of memory" in str(notice.query_one("#why").render())
        assert "What was written is kept" in running.toasts[-1]
        assert stored(running)[-1] == ("assistant", "Half an ans")
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert record.reason == "error"
        await running.pilot.click("#smaller")
        await running.settle()
        assert running.worker.load() == Load("demo", context=2048)
        assert not offered(running)
        await running.submit("/reload plain")
        assert running.worker.load() == Load("demo", context=2048, method="none")
        running.worker.answers = True
        await running.press("ctrl+r")
        assert running.texts() == ["Hello", "Answer 2."]


async def test_a_model_that_does_not_open_is_offered_again(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        await running.submit("Waiting")
        running.worker.say(LoadFailed("It needs 30 GB, and 12 GB are free.", does_not_fit=True))
        await running.settle()
        assert offered(running)
        running.worker.loads = True
        await running.press("f9")
        assert running.texts() == ["Waiting", "Answer 1."]


async def test_a_wrong_command_stays_in_the_prompt_and_is_never_sent(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/modl")
        assert running.app.prompt.text == "/modl"
        assert "/model?" in running.toasts[-1]
        await running.submit("/stop")
        assert "makes no sense just now" in running.toasts[-1]
        await running.submit("//modl")
        await running.submit("/usr/bin is what?")
        assert [text for text in running.texts() if text.startswith("/")] == ["/modl", "/usr/bin is what?"]


async def test_hostile_words_in_sentences_are_shown_as_they_are(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        running.worker.say(Note("[/red] [bold] is no markup"))
        running.worker.say(LoadFailed("[link=x] failed [/]"))
        await running.submit("[/b] <b>hi</b>")
        await running.submit("/[red]")
        assert running.texts()[0] == "[/b] <b>hi</b>"
        assert "[/red] [bold] is no markup" in running.toasts


async def test_a_full_disk_keeps_the_text_in_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:

        def full(*_: object, **__: object) -> None:
            raise StoreFull("There is no room left.")

        monkeypatch.setattr(running.store, "add", full)
        await running.submit("Precious words")
        assert "no room left" in running.toasts[-1]
        assert running.app.prompt.text == "Precious words"


async def test_an_answer_that_cannot_be_saved_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")

        def busy(*_: object, **__: object) -> None:
            raise StoreError("Another program is busy.")

        monkeypatch.setattr(running.store, "write", busy)
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        assert "not saved" in running.toasts[-1]
        assert "Another program is busy." in running.toasts[-1]
        assert running.texts()[-1] == "Answer 1."


def test_conversations_that_cannot_be_kept_are_a_sentence_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("specchat.tui.run.store_path", lambda: tmp_path / "file" / "chats.db")
    complaints = io.StringIO()
    assert run_chat(ChatOptions(), complaints=complaints) == 1
    assert complaints.getvalue().startswith("Conversations can't be kept in ")


def test_keys_that_cannot_be_meant_are_a_sentence_and_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.tui.run.store_path", lambda: tmp_path / "chats.db")
    complaints = io.StringIO()
    assert run_chat(ChatOptions(keys={"retri": "f10"}), complaints=complaints) == 2
    assert "Did you mean retry?" in complaints.getvalue()


async def test_a_fault_ends_the_chat_with_a_sentence_and_shows_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with chat(tmp_path) as running:
        try:
            secret = "the conversation"
            raise ZeroDivisionError(secret)
        except ZeroDivisionError:
            running.app._fatal_error()
        told = str(running.app._exit_renderables[-1])
    assert told.startswith("specchat: this is a fault in specchat (ZeroDivisionError). What led to it is in ")
    assert "the conversation" not in told
    assert "the conversation" not in (tmp_path / "specchat" / "log" / "fault.log").read_text()


@pytest.mark.parametrize(
    "command", ["/file ~nobody-of-this-name/a", "/export ~nobody-of-this-name/a", "/file a\0b", "/export /proc/none/a"]
)
async def test_a_path_that_cannot_be_meant_is_a_sentence(tmp_path: Path, command: str) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.submit(command)
        assert alive(running)
        assert running.toasts
        assert running.app.prompt.text == visible(command), "to be put right"


@pytest.mark.parametrize(
    "error",
    [CatalogueError("models.toml, [x]: no."), ModelUnavailable("Not here."), OSError(28, "No space left", "/tmp/x")],
)
async def test_what_goes_wrong_in_an_action_is_said_and_the_chat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with chat(tmp_path) as running:

        async def fails(*_: object) -> None:
            raise error

        monkeypatch.setattr("specchat.tui.handlers.looking.tokens", fails)
        await running.submit("/tokens")
        assert running.toasts[-1] in (str(error), "That could not be done: No space left (/tmp/x).")
        await running.submit("Hello")
        assert running.texts() == ["Hello", "Answer 1."]


async def test_an_editor_that_moves_the_text_leaves_the_prompt_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path) as running:
        monkeypatch.setenv("VISUAL", "rm")
        monkeypatch.setattr(running.app, "suspend", contextlib.nullcontext)
        running.app.prompt.set_text("Precious words")
        await running.press("ctrl+g")
        assert "left no text" in running.toasts[-1]
        assert running.app.prompt.text == "Precious words"
        gone = tmp_path / "gone"
        monkeypatch.setattr(tempfile, "tempdir", str(gone))
        await running.press("ctrl+g")
        assert "No such file or directory" in running.toasts[-1]
        assert alive(running)


async def test_tab_does_nothing_where_the_names_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:

        def fails() -> None:
            raise CatalogueError("models.toml can't be read.")

        monkeypatch.setattr(running.shelf, "rows", fails)
        for words in ("/model q", "/file ~nobody-of-this-name"):
            running.app.prompt.set_text(words)
            await running.press("tab")
            assert running.app.prompt.text == words
        assert alive(running)
