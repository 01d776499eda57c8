"""Looking things up: the model's template, the logs, models and conversations in the palette, code at a click."""

from __future__ import annotations

import asyncio
from pathlib import Path

import platformdirs
import pytest
from textual.geometry import Offset
from textual.widgets import Input

from specchat.tui.actions import ACTIONS
from specchat.tui.completion import hint
from specchat.tui.jumping import Jumps
from specchat.tui.keymap import _OF_EVERY_TEXT
from specchat.tui.transcript import AnswerRecord, Transcript
from specchat.tui.wording import draft_words
from specchat.worker.messages import Figures, Finished, Loaded
from tests.tui.scripted import Chat, ScriptedWorker, chat
from tests.tui.seeing import on_screen, until
from tests.tui.stage import Stage, settle


def test_no_key_of_an_action_is_one_that_the_prompt_takes_first() -> None:
    taken = {key: action.id for action in ACTIONS if not action.priority for key in action.keys} & _OF_EVERY_TEXT.keys()
    assert taken == set()


async def test_the_template_of_the_model_is_shown_as_it_is(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        template = "{% for m in messages %}[red]{{ m.content }}\x1b[31m{% endfor %}"
        running.worker.say(Loaded("demo", "Demo", "demo.gguf", None, "auto", 4096, 0.1, False, template=template))
        await running.settle()
        await running.submit("/show template")
        await until(running, "{% for m in messages %}[red]{{ m.content }}")
        assert "\x1b" not in on_screen(running)


async def test_the_logs_are_shown_with_their_ends_in_sight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_log_path", lambda *_, **__: tmp_path)
    (tmp_path / "worker.log").write_text("first words\n" * 300, encoding="utf-8")
    log = tmp_path / "llama.log"
    log.write_bytes(b"x" * 100_000 + b"\nload failed: \x1b[31mno such tensor\xff\n")
    async with chat(tmp_path) as running:
        await running.submit("/log")
        await until(running, "no such tensor")
        assert "\x1b" not in on_screen(running)
        with log.open("a") as more:
            more.write("and then it went well\n")
        await running.press("r")
        await until(running, "and then it went well")


async def hits(running: Chat, query: str) -> dict[str, object]:
    provider = Jumps(running.app.screen)
    await provider.startup()
    return {str(hit.text): hit.command async for hit in provider.search(query)}


async def test_models_and_conversations_are_in_the_palette(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Why is the sky blue?")
        await running.press("ctrl+n")
        await running.submit("Where do [llamas] live?")
        assert set(await hits(running, "qwen")) == {"Model: Qwen3 8B Q4_K_M"}
        assert set(await hits(running, "sky")) == {"Conversation: Why is the sky blue?"}
        assert await hits(running, "llamas") == {}, "it is on the screen already"
        await running.press("ctrl+p", *"sky")
        await until(running, "Conversation: Why is the sky blue?")
        await running.press("enter", "enter")
        for _ in range(100):
            if running.texts()[:1] == ["Why is the sky blue?"]:
                break
            await running.pilot.pause(0.02)
        assert running.texts()[0] == "Why is the sky blue?"


def test_a_click_over_a_code_block_copies_it_and_one_in_it_does_not() -> None:
    text = "See:\n\n```python\nx = 1\n```\n\n- and\n\n  ```\n  two\n  ```\n"

    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 30)) as pilot:
            transcript.load([AnswerRecord("a", "m", text, reason="stop")])
            await settle(pilot)
            rows = app.text().splitlines()
            heads = [place for place, row in enumerate(rows) if row.endswith("copy")]
            assert "python · copy" in rows[heads[0]]
            for row in (heads[1], heads[0], heads[0] + 1):
                await pilot.click(offset=Offset(20, row))
                await settle(pilot)
            asked = [m for m in app.asked if isinstance(m, Transcript.CopyRequested)]
            assert [(m.text, m.number, m.count) for m in asked] == [("two", 2, 2), ("x = 1", 1, 2)]

    asyncio.run(scenario())


async def test_a_clicked_code_block_is_on_the_clipboard(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(words=["```\none\n```\n"])) as running:
        await running.submit("Hello")
        row = next(y for y, line in enumerate(on_screen(running).splitlines()) if line.rstrip().endswith("copy"))
        await running.pilot.click(offset=Offset(20, row))
        await running.settle()
        assert running.app.clipboard.strip() == "one"


async def test_a_command_that_is_typed_is_helped_with(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("slash")
        assert "F1 lists all commands" in on_screen(running)
        await running.press("r", "e")
        assert "/retry" in on_screen(running)
        assert "/reload" in on_screen(running)
        await running.press("l")
        assert "/reload [smaller|larger|plain] · Load the model again" in on_screen(running)
        await running.press("tab", *"lar")
        assert "/reload [smaller|larger|plain] · Load the model again" in on_screen(running)
        running.app.prompt.clear_prompt()
        await running.press("H", "i")
        assert "/reload" not in on_screen(running)


@pytest.mark.parametrize("typed", ["", "Hello", "/usr/bin", "//x", "/nonsense"])
def test_what_is_no_command_is_not_helped_with(typed: str) -> None:
    assert hint(typed) == ""


def test_a_draft_that_was_cut_from_its_model_is_called_what_it_is() -> None:
    digest = "b179c9523d0e6a0f98a330c7562b6827"
    assert draft_words(f"{digest}-without-3-4-5-7.gguf") == "own layers, without 3, 4, 5, 7"
    assert draft_words(f"{digest}-without-{digest}.gguf") == "own layers"
    assert draft_words("Qwen3-0.6B-Q8_0.gguf") == "Qwen3-0.6B-Q8_0.gguf"


async def test_a_model_without_a_switch_for_thinking_is_not_said_to_think(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/think on")
        assert "Demo 135M has none" in running.toasts[-1]
        assert "thinks first" not in running.toasts[-1]


async def test_an_answer_without_a_token_leaves_the_figures_before_it(tmp_path: Path) -> None:
    async with chat(tmp_path, size=(120, 40)) as running:
        await running.submit("Hello")
        running.worker.answers = False
        await running.submit("Once more")
        running.worker.say(Finished(running.worker.asks()[-1].turn, "error", Figures(), "It failed."))
        await running.settle()
        await until(running, "90%")
        await running.submit("/stats")
        await until(running, "3: 8")


async def look_for(running: Chat, words: str, shows: str) -> None:
    """Open the first conversation that has the words."""
    await running.press("ctrl+o")
    await until(running, "words in titles" if words else "Conversations")
    running.app.screen.query_one("#words", Input).value = words
    await until(running, shows)
    await running.press("enter")
    for _ in range(100):
        if running.app.screen is running.app.base and running.app.transcript.selected is not None:
            return
        await running.pilot.pause(0.02)
    raise AssertionError(on_screen(running))


async def test_a_message_that_is_searched_for_is_gone_to_in_whatever_branch_it_is(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {number}." for number in range(40))
    worker = ScriptedWorker(words=["The pelican answer.", "A second answer.", long, long])
    async with chat(tmp_path, worker) as running:
        await running.submit("First")
        await running.press("ctrl+r")
        await running.submit("Second")
        await running.submit("Third")
        await running.press("ctrl+n")
        await look_for(running, "pelican", "The pelican answer")
        selected = running.app.transcript.selected
        assert selected is not None
        assert selected.text == "The pelican answer."
        assert running.texts() == ["First", "The pelican answer."]
        await look_for(running, "second answer", "A second answer")
        assert running.texts()[1] == "A second answer.", "also in the conversation that is on the screen"
        await until(running, "A second answer.")
        await running.press("escape")
        assert running.app.transcript.selected is None
        assert running.app.focused is running.app.prompt
