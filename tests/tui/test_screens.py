"""The screens over the chat: models, conversations, settings, help, questions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import DataTable, Input, OptionList, TextArea

from specchat.chat.store_file import StoreError
from specchat.tui.options import ChatOptions
from specchat.tui.screens.help import help_text
from specchat.tui.shelf import DownloadState, Fit
from specchat.worker.messages import Load
from tests.tui.scripted import ScriptedWorker, chat
from tests.tui.seeing import on_screen, said, top, until


async def test_models_are_listed_with_size_draft_and_fit(tmp_path: Path) -> None:
    async with chat(tmp_path, size=(120, 40)) as running:
        await running.press("f2")
        await until(running, "does not fit: 50 GB short")
        for words in (
            "●  SmolLM2 135M Instruct",
            "98.4 MB",
            "own layers",
            "fits 4k",
            "↓  Qwen3 8B",
            "Qwen3 0.6B",
        ):
            assert words in on_screen(running)
        await running.press("slash", "h", "u", "g")
        table = running.app.screen.query_one(DataTable)
        assert table.row_count == 1
        await running.press("escape")
        assert running.worker.load() == Load("demo"), "looking changes nothing"


async def test_a_model_that_is_here_is_opened_at_once(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(load=Load("other", threads=3, context=512))) as running:
        await running.press("f2")
        await until(running, "fits 4k")
        await running.press("enter")
        assert running.worker.load() == Load("demo", threads=3), "context and draft are the model's own"


async def test_a_model_is_fetched_paused_and_opened_when_it_is_here(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("f2")
        await until(running, "fits 40k")
        await running.press("down", "enter")
        await until(running, "licence: Apache-2.0")
        await running.press("y")
        await until(running, "25.0 MB of 100 MB")
        await running.press("space")
        await until(running, "paused")
        download = running.shelf.download
        assert download is not None
        assert download.progress().state is DownloadState.PAUSED
        await running.press("escape")
        await until(running, "fetching qwen3-8b")
        await running.press("f2", "space")
        assert download.progress().state is DownloadState.RUNNING
        download.state, download.error = DownloadState.FAILED, "The disk is full."
        await until(running, "The disk is full.")
        await running.press("down", "enter")
        download.state = DownloadState.DONE
        await until(running, "Qwen3-8B 135M")
        assert running.worker.load() == Load("qwen3-8b")


async def test_a_model_that_arrives_out_of_sight_is_said_to_be_here(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("f2")
        await until(running, "fits 40k")
        await running.press("down", "enter")
        await until(running, "licence: Apache-2.0")
        await running.press("y")
        await until(running, "25.0 MB of 100 MB")
        await running.press("escape")
        download = running.shelf.download
        assert download is not None
        download.state = DownloadState.DONE
        await until(running, "qwen3-8b is here")
        assert running.worker.load() == Load("demo"), "nothing is opened behind the user's back"


async def test_one_key_takes_the_best_that_fits(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(load=None)) as running:
        await until(running, "fits 40k")
        assert top(running) == "ModelPicker", "without a model the list opens by itself"
        await running.press("b")
        await until(running, "licence: Apache-2.0")
        await running.press("y")
        await until(running, "25.0 MB of 100 MB")
        assert running.shelf.download is not None


async def test_a_shelf_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:

        def fails(*_: object) -> Fit:
            raise OSError("The catalogue [x] can't be read.")

        monkeypatch.setattr(running.shelf, "fit", fails)
        await running.press("f2")
        await until(running, "The catalogue [x] can't be read.")
        assert said(running) == "The catalogue [x] can't be read."
        await running.press("escape")
        monkeypatch.setattr(running.shelf, "rows", fails)
        await running.press("f2")
        await until(running, "The catalogue [x] can't be read.")


async def test_conversations_are_found_by_their_words_and_opened(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(words=["Because of scattering.", "In Peru [/b]."])) as running:
        await running.submit("Why is the sky blue?")
        await running.press("ctrl+n")
        await running.submit("Where do llamas live?")
        await running.press("ctrl+o")
        await until(running, "Why is the sky blue?")
        options = running.app.screen.query_one(OptionList)
        assert options.option_count == 2
        await running.press(*"peru")
        await until(running, "In Peru [/b].")
        assert options.option_count == 1
        running.app.screen.query_one("#words", Input).value = "scattering"
        await until(running, "Because of scattering")
        await running.press("enter")
        assert running.texts() == ["Why is the sky blue?", "Because of scattering."]
        await running.submit("/chats zebra")
        await until(running, "No conversation has these words.")


async def test_conversations_are_renamed_and_deleted_after_asking(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First [/red]")
        await running.press("ctrl+o")
        await until(running, "2 messages")
        await running.press("f6")
        running.app.screen.query_one("#line", Input).value = "My [b]title"
        await running.press("enter")
        await until(running, "My [b]title")
        await running.press("f8")
        assert top(running) == "Confirm"
        assert "“My [b]title”" in on_screen(running)
        await running.press("enter")
        assert len(running.store.chats(9)) == 1, "enter alone deletes nothing"
        await running.press("f8", "y")
        await until(running, "There are no conversations yet.")
        assert running.store.chats(9) == []
        await running.press("escape")
        assert running.texts() == [], "what is deleted leaves the screen"


async def test_deleting_takes_everything_along(tmp_path: Path) -> None:
    forgotten: list[str] = []
    async with chat(tmp_path, options=ChatOptions(forget=forgotten.append)) as running:
        await running.submit("Hello")
        current = running.app.talk.chat
        assert current is not None
        await running.submit("/delete")
        await running.press("y")
        assert forgotten == [current.id]


async def test_settings_are_kept_only_when_all_can_be_meant(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("f5")
        running.app.screen.query_one("#system", TextArea).text = "Be brief."
        running.app.screen.query_one("#temperature", Input).value = "7x"
        await running.press("ctrl+s")
        assert "temperature is '7x'" in said(running)
        assert running.app.focused is running.app.screen.query_one("#temperature")
        running.app.screen.query_one("#temperature", Input).value = "0.5"
        running.app.screen.query_one("#thinking", Input).value = "off"
        await running.press("enter")
        assert top(running) != "SettingsScreen"
        assert running.app.talk.system == "Be brief."
        assert running.app.talk.answers.sampling == {"temperature": 0.5}
        assert running.app.talk.answers.thinking is False
        await running.press("f5")
        assert running.app.screen.query_one("#temperature", Input).value == "0.5"
        running.app.screen.query_one("#temperature", Input).value = ""
        await running.press("escape")
        assert running.app.talk.answers.sampling == {"temperature": 0.5}, "Esc leaves it as it was"


async def test_what_is_in_force_and_the_figures_can_be_read(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/stats")
        assert "no figures yet" in running.toasts[-1]
        await running.submit("Hello")
        for command, words in (
            ("/stats", "24, 20, 15"),
            ("/show", "Demo 135M (demo)"),
            ("/show params", "default (0.8"),
            ("/show system", "There is no system prompt."),
        ):
            await running.submit(command)
            await until(running, words)
            await running.press("escape")
        await running.submit("/tokens")
        assert "64 of 4,096 tokens are in use; 4,032 are left" in running.toasts[-1]
        await running.submit("/show all")
        assert "info, params, system" in running.toasts[-1]


async def test_the_palette_finds_and_does(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.press("ctrl+p", *"new conv")
        await until(running, "Begins an empty conversation")
        await running.press("enter", "enter")
        for _ in range(100):
            if not running.texts():
                break
            await asyncio.sleep(0.02)
        assert running.texts() == []


async def test_themes_are_chosen_by_name(tmp_path: Path) -> None:
    kept: list[str] = []
    async with chat(tmp_path, options=ChatOptions(theme="specchat-light", remember_theme=kept.append)) as running:
        assert running.app.theme == "specchat-light"
        await running.submit("/theme specchat-dark")
        assert running.app.theme == "specchat-dark"
        await running.submit("/theme specchat-drak")
        assert "Did you mean specchat-dark?" in running.toasts[-1]
        await running.press("ctrl+q")
    assert kept == ["specchat-dark"]


@pytest.mark.parametrize("width", [96, 70, 40])
def test_the_help_is_as_wide_as_there_is_room(width: int) -> None:
    from specchat.tui.keymap import resolve

    lines = help_text(resolve(), width).plain.splitlines()
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("size", [(80, 24), (40, 20)])
async def test_every_screen_fits_a_small_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chat(tmp_path, size=size) as running:
        for key, words in (("f1", "esc close"), ("f2", "close"), ("f5", "^S"), ("ctrl+o", "esc close")):
            await running.press(key)
            await until(running, words)
            box = running.app.screen.query_one("#box").region
            assert box.right <= size[0]
            assert box.bottom <= size[1]
            await running.press("escape")


async def test_enter_waits_for_the_list_of_the_words_that_were_written(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(words=["Because of scattering.", "In Peru."])) as running:
        await running.submit("Why is the sky blue?")
        await running.press("ctrl+n")
        await running.submit("Where do llamas live?")
        await running.press("ctrl+o")
        await until(running, "Why is the sky blue?")
        words = running.app.screen.query_one("#words", Input)
        words.value = "scattering"
        await words.action_submit()
        for _ in range(100):
            if running.texts() == ["Why is the sky blue?", "Because of scattering."]:
                return
            await running.pilot.pause(0.02)
        raise AssertionError(running.texts())


async def test_a_conversation_whose_answer_is_written_is_not_deleted(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("First")
        await running.press("ctrl+o")
        await until(running, "2 messages")
        await running.press("f8", "y")
        await until(running, "An answer is still being written")
        assert len(running.store.chats(9)) == 1
        await running.press("escape", "escape")
        await running.submit("/delete")
        running.store.notes.clear()
        forget = running.store.delete

        def noted(chat_id: str) -> None:
            forget(chat_id)
            running.store.notes.append("Some of it may still be on the disk.")

        running.store.delete = noted  # type: ignore[method-assign]
        await running.press("y")
        for _ in range(100):
            if "Some of it may still be on the disk." in running.toasts:
                break
            await running.pilot.pause(0.02)
        assert "Some of it may still be on the disk." in running.toasts
        assert running.store.chats(9) == []


async def test_a_title_that_cannot_be_kept_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("/rename")

        def busy(*_: object) -> None:
            raise StoreError("Another program is busy.")

        monkeypatch.setattr(running.store, "rename", busy)
        await running.press("x", "enter")
        await running.settle()
        assert running.toasts[-1] == "Another program is busy."
