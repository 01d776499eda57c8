"""Where the user types."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from specchat.tui.prompt import MemoryHistory, PromptArea
from tests.tui.stage import Stage, settle

Scenario = Callable[[Stage, PromptArea, Pilot[None]], Awaitable[None]]


def play(scenario: Scenario, prompt: PromptArea | None = None) -> Stage:
    """Run a scenario with a prompt that has the focus."""
    area = prompt or PromptArea()
    app = Stage(area)

    async def run() -> None:
        async with app.run_test(size=(50, 24)) as pilot:
            area.focus()
            await pilot.pause()
            await scenario(app, area, pilot)

    asyncio.run(run())
    return app


async def paste(app: Stage, pilot: Pilot[None], text: str) -> None:
    app.post_message(events.Paste(text))
    await pilot.pause()
    await pilot.pause()


def sent(app: Stage) -> list[str]:
    return [message.text for message in app.asked if isinstance(message, PromptArea.Submitted)]


def test_enter_sends_and_the_text_stays_until_it_is_accepted() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await pilot.press("enter", "space", "enter")
        assert sent(app) == [], "there is nothing to send"
        await pilot.press("backspace", *"hi", "enter")
        assert sent(app) == ["hi"]
        assert prompt.text == "hi"
        prompt.clear_prompt()
        assert prompt.text == ""

    play(scenario)


def test_keys_that_come_at_once_are_acted_on_in_their_order() -> None:
    """As from a fast typist on a busy machine, or from a program that types."""

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        for key in ("x", "backspace", "b", "c", "left", "a", "home", "enter", "o"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert sent(app) == ["bac"]
        assert prompt.text == "obac"

    play(scenario)


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
def test_a_line_can_be_begun_with_three_keys(key: str) -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await pilot.press("a", key, "b")
        assert prompt.text == "a\nb"
        assert sent(app) == []

    play(scenario)


def test_pasting_never_sends_and_brings_no_control_characters() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await paste(app, pilot, "one\r\ntwo\rthree\n\x1b[31m\x1b[201~\x03\n")
        assert sent(app) == []
        assert prompt.text == "one\ntwo\nthree\n[31m[201~\n"

    play(scenario)


def test_a_long_paste_is_folded_and_sent_in_full() -> None:
    long = "word [pasted 3.1k chars]\n" * 124

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await pilot.press(*"see ")
        await paste(app, pilot, long)
        await pilot.press(*" ok")
        assert prompt.text == "see [pasted 3.1k chars] ok"
        await paste(app, pilot, long)
        assert prompt.text.endswith("[pasted 3.1k chars #2]")
        await pilot.press("enter")
        assert sent(app) == [f"see {long} ok{long}"]
        await paste(app, pilot, "x" * 2000)
        assert prompt.text.endswith("x" * 2000)

    play(scenario)


@pytest.mark.parametrize("keys", [("backspace",), ("left", "x"), ("ctrl+w",)])
def test_editing_a_folded_paste_unfolds_it(keys: tuple[str, ...]) -> None:
    long = "line\n" * 500 + "end"

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await paste(app, pilot, long)
        await pilot.press(*keys)
        assert prompt.text == long
        await pilot.press("backspace")
        assert prompt.text == long[:-1]
        await pilot.press("ctrl+z", "ctrl+z")
        assert prompt.text in ("[pasted 2.5k chars]", "", long)

    play(scenario)


def test_a_selected_label_is_deleted_as_a_whole_and_a_typed_one_is_plain_text() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await paste(app, pilot, "y" * 3100)
        await pilot.press("f7", "backspace")
        assert prompt.text == ""
        await pilot.press(*"[pasted 9.9k chars]", "backspace", "enter")
        assert sent(app) == ["[pasted 9.9k chars"]

    play(scenario)


def test_up_and_down_walk_the_prompts_that_begin_with_what_was_typed() -> None:
    history = MemoryHistory(["make tea", "tell me", "make\ncoffee", "make tea"])

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await pilot.press("up")
        assert prompt.text == "make tea"
        await pilot.press("up")
        assert prompt.text == "make\ncoffee"
        await pilot.press("up", "up")
        assert prompt.text == "tell me", "the first press went up a row"
        await pilot.press("up")
        assert prompt.text == "tell me", "each prompt once"
        await pilot.press("down", "down", "down")
        assert prompt.text == ""
        await pilot.press(*"mak", "up", "up", "up", "up")
        assert prompt.text == "make\ncoffee"
        await pilot.press("down", "down", "down")
        assert prompt.text == "mak"

    play(scenario, PromptArea(history=history))


def test_what_was_accepted_comes_back_with_up() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await paste(app, pilot, "z" * 2500)
        prompt.clear_prompt()
        await pilot.press("up", "enter")
        assert prompt.text == "[pasted 2.5k chars]"
        assert sent(app) == ["z" * 2500]
        prompt.clear_prompt(keep=False)

    play(scenario)


def test_tab_completes_what_the_app_knows() -> None:
    def complete(text: str, position: int) -> tuple[int, str] | None:
        start = text.rfind("/", 0, position)
        return (start, "/model ") if text[start:position] == "/mo" else None

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await pilot.press("a", "ctrl+j", *"b /mo", "tab")
        assert prompt.text == "a\nb /model "
        await pilot.press("x", "tab")
        assert prompt.text == "a\nb /model x"

    play(scenario, PromptArea(complete=complete))


def test_the_prompt_grows_to_ten_rows_and_then_scrolls() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        heights = []
        for _ in range(14):
            await pilot.press("x", "ctrl+j")
            await pilot.pause()
            heights.append(prompt.content_size.height)
        assert heights == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10, 10, 10]
        await pilot.press(*"last")
        await settle(pilot)
        assert "last" in app.text()

    play(scenario)


def test_hostile_text_and_file_names_are_shown_as_they_are() -> None:
    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        prompt.set_attachments(["[red]a[/x].txt", "b\x1b[31m\\[/x].py"])
        await paste(app, pilot, "日本語 👨‍👩‍👧‍👦 שלום e\u0301 [/x] <b> " * 3)
        await settle(pilot)
        assert app.misfits() == []
        assert "[file [red]a[/x].txt]  [file b[31m\\[/x].py]" in app.text()
        assert "\x1b" not in app.text()
        await pilot.press("enter")
        assert len(sent(app)) == 1

    play(scenario)


def test_a_dropped_file_is_offered_and_not_typed(tmp_path: Path) -> None:
    file = tmp_path / "a name.txt"
    file.write_text("x")

    async def scenario(app: Stage, prompt: PromptArea, pilot: Pilot[None]) -> None:
        await paste(app, pilot, f"'{file}'")
        assert [m.paths for m in app.asked if isinstance(m, PromptArea.FilesDropped)] == [(file,)]
        await paste(app, pilot, f"{tmp_path}/missing is a path")
        assert prompt.text == f"{tmp_path}/missing is a path"

    play(scenario)
