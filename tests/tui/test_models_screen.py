"""Choosing and fetching models where something is in the way: an answer, a wrong name, another screen, no model."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Button

from specchat.catalogue.hub_errors import Cancelled
from specchat.tui.engine_state import EngineState
from specchat.tui.model_shelf import HubDownload, ModelShelf
from specchat.tui.notice import Notice
from specchat.tui.screens.help import Help
from specchat.tui.screens.models import ModelPicker
from specchat.tui.shelf import DownloadState, ShelfError
from specchat.worker.messages import Died, Load, Loaded, LoadFailed
from tests.tui.scripted import Chat, ScriptedWorker, chat
from tests.tui.seeing import on_screen, said, top, until


async def fetching(running: Chat) -> None:
    """Open the list and fetch its second model."""
    await running.press("f2")
    await until(running, "fits 40k")
    await running.press("down", "enter")
    await until(running, "licence: Apache-2.0")
    await running.press("y")
    await until(running, "25.0 MB of 100 MB")


async def shows(running: Chat, words: str) -> None:
    """Wait until a toast says so."""
    for _ in range(200):
        if any(words in toast for toast in running.toasts):
            return
        await running.pilot.pause(0.02)
    raise AssertionError(f"{words!r} was never said: {running.toasts}")


async def test_choosing_a_model_while_an_answer_is_written_is_refused_in_a_sentence(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        await running.press("f2")
        await until(running, "fits 4k")
        await running.press("enter")
        await shows(running, "Stop it first")
        assert running.worker.load() == Load("demo")
        assert running.app.is_running


async def test_a_catalogue_that_can_not_be_read_is_said_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path) as running:
        await running.press("f2")
        await until(running, "fits 40k")

        def broken() -> str:
            raise ShelfError("models.toml is not valid TOML.")

        monkeypatch.setattr(running.shelf, "best", broken)
        await running.press("b")
        await until(running, "models.toml is not valid TOML.")
        assert top(running) == "ModelPicker"


async def test_nothing_is_fetched_before_its_size_licence_and_place_were_agreed_to(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("f2")
        await until(running, "fits 40k")
        await running.press("down", "enter")
        await until(running, "licence: Apache-2.0")
        for words in ("5.0 GB to fetch", "Qwen3-0.6B-Q8_0.gguf  30.0 MB", "to: /models (90.0 GB free)", "fits 40k"):
            assert words in on_screen(running)
        await running.press("enter")
        assert top(running) == "ModelPicker"
        assert running.shelf.download is None, "enter alone fetches nothing"


async def test_a_download_that_ends_under_another_screen_closes_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await fetching(running)
        running.app.push_screen(Help(running.app.keys))
        await running.settle()
        assert running.shelf.download is not None
        running.shelf.download.state = DownloadState.DONE
        await running.pilot.pause(0.5)
        assert top(running) == "Help"
        await running.press("escape")
        for _ in range(100):
            if running.worker.load().model == "qwen3-8b":
                break
            await running.pilot.pause(0.02)
        assert running.worker.load() == Load("qwen3-8b"), "once nothing lies over the list, the model is opened"


async def test_a_download_that_is_paused_or_failed_can_be_forgotten(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await fetching(running)
        await running.press("x")
        assert "Pause it first" in said(running)
        download = running.shelf.download
        assert download is not None
        download.state, download.error = DownloadState.FAILED, "The disk is full."
        await until(running, "The disk is full.")
        await running.press("x")
        assert running.app.downloads == {}
        await running.press("escape")
        assert "The disk is full." not in on_screen(running)


async def test_the_machine_is_looked_at_anew_by_every_list_which_counts_what_switching_frees(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        for _ in range(2):
            await running.press("f2")
            await until(running, "does not fit")
            await running.press("escape")
        assert running.shelf.freed == [400_000_000, 400_000_000]
        assert running.shelf.rests >= 2, "what judging holds is given back"


@pytest.mark.parametrize("command", ["/model typo", "/draft typo"])
async def test_a_wrong_name_costs_nothing(tmp_path: Path, command: str) -> None:
    async with chat(tmp_path) as running:
        await running.submit(command)
        await shows(running, "Did you mean demo?")
        assert running.worker.load() == Load("demo")
        assert running.app.talk.engine.loaded is not None
        assert running.app.prompt.text == command, "to be put right"


@pytest.mark.parametrize(
    ("command", "expected"),
    [("/model qwen3-8b", Load("qwen3-8b")), ("/draft qwen3-8b", Load("demo", draft="qwen3-8b"))],
)
async def test_a_model_that_is_not_here_is_shown_in_the_list_and_taken_once_it_is(
    tmp_path: Path, command: str, expected: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path) as running:
        await running.submit(command)
        await until(running, "fits 40k")
        picker = running.app.screen
        assert isinstance(picker, ModelPicker)
        assert picker._under_cursor() == "qwen3-8b"
        assert running.worker.load() == Load("demo"), "the model that works is still open"
        rows = tuple(replace(row, here=True) for row in running.shelf.rows())
        monkeypatch.setattr(running.shelf, "rows", lambda: rows)
        picker.dismiss("qwen3-8b")
        for _ in range(100):
            if running.worker.load() == expected:
                break
            await running.pilot.pause(0.02)
        assert running.worker.load() == expected


async def test_a_repository_that_is_not_here_is_offered_at_once(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/model hf:user/some-gguf")
        await until(running, "licence: Apache-2.0")
        assert top(running) == "Confirm"


async def test_a_first_start_without_models_offers_the_best_that_fits_by_one_key(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False), size=(100, 30)) as running:
        running.app.talk.open_model(Load(""))
        running.worker.say(LoadFailed("superseded"))
        running.worker.say(LoadFailed("There is no model on this machine yet.", not_here=True))
        await until(running, "Fetch Qwen3 8B Q4_K_M (5.0 GB, Apache-2.0) · F9")
        notice = running.app.query_one(Notice)
        offered = {button.id for button in notice.query(Button) if button.display}
        assert offered == {"fetch", "other"}, "loading again would fail again"
        await running.press("f9")
        await until(running, "licence: Apache-2.0")
        await running.press("y")
        await until(running, "25.0 MB of 100 MB")
        running.worker.loads = True
        assert running.shelf.download is not None
        running.shelf.download.state = DownloadState.DONE
        await until(running, "Qwen3-8B 135M")
        assert running.worker.load() == Load("qwen3-8b")


async def test_of_two_models_under_way_only_the_last_counts(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        await running.submit("Waiting")
        running.app.talk.open_model(Load("other"))
        running.worker.loaded(Load("demo"))
        await running.settle()
        assert running.app.talk.loading
        assert running.worker.asks() == [], "the question waits for the model that was chosen last"
        running.worker.loaded(Load("other"))
        await running.settle()
        assert running.texts() == ["Waiting", "Answer 1."]
        assert running.app.talk.thread()[-1].model == "Other 135M"


async def test_after_a_death_the_next_model_counts_at_once(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        running.app.talk.open_model(Load("other"))
        running.worker.say(Died("It was killed."))
        await running.settle()
        running.worker.loads = True
        await running.press("f9")
        loaded = running.app.talk.engine.loaded
        assert isinstance(loaded, Loaded)
        assert loaded.model == "other"


def test_half_the_context_is_half_of_what_was_open_and_half_of_that_again() -> None:
    engine = EngineState()
    engine.opening(Load("demo"))
    engine.opened(OPEN)
    engine.lost()
    smaller = engine.smaller()
    assert smaller == Load("demo", context=2048)
    engine.opening(smaller)
    engine.lost()
    assert engine.smaller() == Load("demo", context=1024)
    engine.opening(Load("another"))
    assert engine.smaller() == Load("another", context=4096), "of another model nothing is known"


OPEN = Loaded("demo", "Demo", "demo.gguf", None, "auto", 4096, 0.1, False)


def test_enter_on_a_download_that_runs_leaves_it_pausable(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[threading.Event] = []

    def fetch(download: HubDownload, pause: threading.Event) -> None:
        runs.append(pause)
        pause.wait(5)
        raise Cancelled("Stopped.")

    monkeypatch.setattr(HubDownload, "_fetch", fetch)
    download = HubDownload("demo")
    download.resume()
    download.pause()
    download._thread.join(5)
    assert download.progress().state is DownloadState.PAUSED
    assert len(runs) == 1, "one run, not a second beside it"
    download.resume()
    download.pause()
    download._thread.join(5)
    assert download.progress().state is DownloadState.PAUSED
    assert len(runs) == 2


def test_the_shelf_says_what_it_can_not_do_in_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = ModelShelf()
    for name, words in (("qwen3-8bb", "Did you mean qwen3-8b"), ("/no/such.gguf", "There is no file /no/such.gguf")):
        with pytest.raises(ShelfError, match=words):
            shelf.find(name)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    assert not shelf.find("qwen3-8b").here
    offer = shelf.offer("qwen3-8b")
    assert offer.licence == "Apache-2.0"
    assert len(offer.files) == 2
    assert offer.size is not None
    assert offer.size > 5 * 10**9
    assert offer.destination.startswith(str(tmp_path))
    broken = tmp_path / "models.toml"
    broken.write_text("[broken")
    monkeypatch.setattr("specchat.catalogue.entries.user_path", lambda: broken)
    for ask in (shelf.rows, shelf.best, lambda: shelf.fit("demo"), lambda: shelf.fetch("demo")):
        with pytest.raises(ShelfError, match="not valid TOML"):
            ask()
    shelf.close()
