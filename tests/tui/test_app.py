"""The chat's keys and commands as their user meets them: copying, leaving, files, figures, sizes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from specchat.tui.transcript import Answer
from specchat.worker.messages import Load
from tests.tui.scripted import ScriptedWorker, chat
from tests.tui.seeing import alive


def test_nothing_heavy_is_loaded_before_the_first_paint() -> None:
    heavy = "numpy", "llama_cpp", "huggingface_hub", "jinja2", "typer"
    code = f"import sys, specchat.tui.run; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_model_draft_and_depth_are_changed_by_opening_again(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        for command, expected in (
            ("/k 4", Load("demo", draft_tokens=4)),
            ("/draft my/other.gguf", Load("demo", draft="my/other.gguf", draft_tokens=4)),
            ("/method suffix", Load("demo", method="suffix")),
            ("/model my/own.gguf", Load("my/own.gguf")),
            ("/reload", Load("my/own.gguf")),
        ):
            await running.submit(command)
            assert running.worker.load() == expected, command
        await running.submit("/k many")
        assert "0 to 64" in running.toasts[-1]
        await running.submit("/method sufix")
        assert "Did you mean suffix?" in running.toasts[-1]
        running.worker.answers = False
        await running.submit("Hello")
        await running.submit("/model demo")
        assert "Stop it first" in running.toasts[-1]


async def test_copying(tmp_path: Path) -> None:
    worker = ScriptedWorker(words=["See:\n```\none\n```\nand\n```\ntwo\n```\n"])
    async with chat(tmp_path, worker) as running:
        await running.submit("Hello")
        await running.submit("/copy code")
        assert running.app.clipboard.strip() == "two"
        await running.submit("/copy 1")
        assert running.app.clipboard == "Hello"
        await running.submit("/copy")
        assert running.app.clipboard.startswith("See:")
        await running.submit("/copy 9")
        assert "1 to 2" in running.toasts[-1]
        await running.press("alt+up", "c")
        assert running.app.clipboard.strip() == "one"
        await running.press("c")
        assert running.app.clipboard.strip() == "two"


async def test_ctrl_c_copies_or_stops_or_quits_at_the_second_time(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        await running.press("a", "b", "shift+left", "ctrl+c")
        assert running.app.clipboard == "b"
        running.app.prompt.clear_prompt()
        await running.press("ctrl+c")
        assert not running.waits
        await running.press("ctrl+c")
        assert "Once more" in running.toasts[-1]
        running.clock.now += 3
        await running.press("ctrl+c")
        assert alive(running)
        await running.press("ctrl+c")
        assert not alive(running)
        assert running.worker.closed


async def test_ctrl_d_leaves_an_empty_prompt_only(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("a", "left", "ctrl+d")
        assert alive(running)
        assert running.app.prompt.text == ""
        await running.press("ctrl+d")
        assert not alive(running)


async def test_the_prompt_is_written_in_the_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.delenv("EDITOR", raising=False)
        await running.press("ctrl+g")
        assert "$EDITOR" in running.toasts[-1]
        monkeypatch.setenv("EDITOR", "true")
        await running.press("ctrl+g")
        assert "can't be lent" in running.toasts[-1], "a headless terminal can't be suspended"


async def test_exports_go_where_they_are_asked_to_and_never_over_a_file(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Why is it blue?")
        await running.submit("/export")
        assert "Why is it blue" in (tmp_path / "Why-is-it-blue.md").read_text()
        await running.submit(f"/export json {tmp_path / 'all.json'}")
        assert (tmp_path / "all.json").read_text().startswith("{")
        await running.submit("/export")
        assert "there already" in running.toasts[-1]


async def test_origins_are_marked_in_old_and_new_answers(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.press("f4")
        await running.submit("More")
        assert [answer.provenance_shown for answer in running.app.query(Answer)] == [True, True]
        await running.press("f4")
        assert [answer.provenance_shown for answer in running.app.query(Answer)] == [False, False]


@pytest.mark.parametrize("size", [(120, 40), (80, 24), (40, 20)])
async def test_every_size_shows_question_answer_prompt_and_keys(tmp_path: Path, size: tuple[int, int]) -> None:
    async with chat(tmp_path, size=size) as running:
        await running.submit("Hello")
        assert running.shown["panel"] == (size[0] >= 100)
        screen = "\n".join(strip.text for strip in running.app.screen._compositor.render_strips())
        for words in ("❯ Hello", "Answer 1.", "ctx 64/4.1k", "F1 help"):
            assert words in screen
        await running.press("f3")
        assert running.shown["panel"] == (size[0] < 100)
        await running.pilot.resize_terminal(130, 40)
        await running.settle()
        assert running.shown["panel"] == (size[0] < 100), "what the user chose stands"


async def test_the_panel_comes_and_goes_with_the_width(tmp_path: Path) -> None:
    async with chat(tmp_path, size=(120, 40)) as running:
        await running.pilot.resize_terminal(90, 30)
        await running.settle()
        assert not running.shown["panel"]
        await running.pilot.resize_terminal(110, 30)
        await running.settle()
        assert running.shown["panel"]


async def test_the_conversation_is_scrolled_from_the_prompt(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(words=["line\n\n" * 60])) as running:
        await running.submit("Hello")
        transcript = running.app.transcript
        await running.settle()
        end = transcript.scroll_y
        assert end == transcript.max_scroll_y > 0
        await running.press("pageup", "pageup")
        await running.pilot.pause(0.4)
        up = transcript.scroll_y
        assert up < end
        await running.press("pagedown")
        await running.pilot.pause(0.4)
        assert up < transcript.scroll_y <= end
        await running.press("a", "home", "end")
        await running.press("end")
        assert transcript.scroll_y == transcript.max_scroll_y
        assert running.app.focused is running.app.prompt


async def test_alt_down_behind_the_last_message_is_the_prompt_again(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.press("alt+up", "alt+up", "alt+down")
        assert running.app.transcript.has_focus
        await running.press("alt+down")
        assert running.app.prompt.has_focus


async def test_ctrl_c_copies_a_selection_once(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        running.app.screen.text_select_all()
        await running.press("ctrl+c")
        assert running.waits
        assert "Hello" in running.app.clipboard
        await running.press("ctrl+c")
        assert not running.waits
