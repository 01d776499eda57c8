"""What a message looks like, and what can be done with it."""

from __future__ import annotations

import asyncio

import pytest
from rich.style import Style

from specchat.tui.transcript import Answer, AnswerRecord, Transcript, UserRecord
from specchat.worker.messages import Span
from tests.tui.drawing import spans
from tests.tui.stage import Stage, settle

HOSTILE = (
    "plain <think>secret</think> <b>bold</b> [red]markup[/red] [/x] \x1b[31mred\x1b]0;title\x07 \x9b5m \x00\x7f\r\n"
    "日本語のテキストと全角 👨‍👩‍👧‍👦👍🏽🇩🇪 e\u0301\u0327 שלום עולם مرحبا ก็ \u202egnp.exe\u202c \u2028 \u200b|\ttab\n\n"
    "<think>\nhidden block\n</think>\n\n<div onclick=x>div</div>\n\n"
    "| 表 | 👍🏽 |\n|---|---|\n| שלום | e\u0301 |\n\n```\n\x1b[2J日本語\t👨‍👩‍👧‍👦\n```\n\n- " + "長" * 90 + "\n"
)


@pytest.mark.parametrize("width", [24, 40, 97])
def test_hostile_text_is_shown_as_it_is_and_breaks_nothing(width: int) -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(width, 150)) as pilot:
            transcript.add_user("u", HOSTILE, attached=["a[/x]\x1b.txt"])
            answer = transcript.begin_answer("a", "[/m]")
            answer.append(spans(HOSTILE, 5, "reasoning") + spans(HOSTILE, 3))
            answer.show_thoughts(True)
            answer.finish("[/x] \x1b[2J", "error", "it [/b]roke \x1b[31m")
            for overlay in (False, True):
                answer.show_provenance(overlay)
                await settle(pilot)
                assert app.misfits() == []
                text = app.text()
                assert not set(text) & {*map(chr, range(10)), *map(chr, range(11, 32)), *map(chr, range(127, 160))}
                assert not set(text) & set("\u202e\u2028")
                flat = "".join(text.split())
                for literal in (
                    "<think>secret</think>",
                    "<b>bold</b>",
                    "[red]markup[/red]",
                    "[/x]",
                    "<divonclick=x>div</div>",
                    "hiddenblock",
                    "it[/b]roke",
                ):
                    assert flat.count(literal) >= 2 - (literal == "it[/b]roke"), literal

    asyncio.run(scenario())


def test_reasoning_is_folded_and_no_part_of_what_is_copied() -> None:
    times = iter([10.0, 11.4])

    async def scenario() -> None:
        transcript = Transcript(clock=lambda: next(times))
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            answer = transcript.begin_answer("a", "m")
            answer.append([Span("reasoning", "hidden thought\nsecond", "plain")], 212)
            answer.append([Span("answer", "The answer.", "plain")], 215)
            answer.finish("", "stop")
            await settle(pilot)
            assert "▸ thoughts (212 tok, 1.4 s)" in app.text()
            assert "hidden thought" not in app.text()
            await pilot.click(Answer, offset=(6, 0))
            await settle(pilot)
            assert "▾ thoughts" in app.text()
            assert "│ hidden thought" in app.text()
            assert answer.copy_text() == "The answer."

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("reason", "error", "said"),
    [
        ("cancelled", "", "■ stopped"),
        ("length", "", "cut off"),
        ("error", "The worker died.", "✗ failed: The worker died."),
    ],
)
def test_an_answer_says_how_it_ended_and_keeps_its_text(reason: str, error: str, said: str) -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            answer = transcript.begin_answer("a", "m")
            answer.show_status("reading the prompt, 512 of 4,000 tokens")
            await settle(pilot)
            assert "512 of 4,000" in app.text()
            answer.append([Span("answer", "partial **wor", "plain")])
            answer.finish("12 tok · 148 tok/s", reason, error)
            answer.show_branch(2, 3)
            await settle(pilot)
            assert all(part in app.text() for part in (said, "partial **wor", "12 tok · 148 tok/s", "‹ 2/3 ›"))
            assert "512 of" not in app.text()

    asyncio.run(scenario())


def styles_of(app: Stage, word: str) -> list[Style]:
    return [part.style for strip in app.strips() for part in strip if part.text == word and part.style]


@pytest.mark.parametrize("colourless", [False, True])
def test_provenance_is_told_by_marks_that_need_no_colour(colourless: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if colourless:
        monkeypatch.setenv("NO_COLOR", "1")

    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(90, 20)) as pilot:
            answer = transcript.begin_answer("a", "m")
            words = {"accepted": "one", "corrected": "two", "bonus": "three", "plain": "four"}
            answer.append([Span("answer", word, origin) for origin, word in words.items()])
            transcript.show_provenance(True)
            answer.append([Span("answer", "**five**", "corrected")])
            await settle(pilot)
            assert "onetwothreefour**five**" in app.text()
            assert all(f" {origin} " in app.text() for origin in words)
            marks = {
                w: (bool(s.bold), bool(s.underline), bool(s.italic)) for w in words.values() for s in styles_of(app, w)
            }
            assert marks == {
                "one": (False, False, True),
                "two": (False, True, False),
                "three": (True, False, False),
                "four": (False, False, False),
            }
            colours = {style.color for word in words.values() for style in styles_of(app, word)}
            assert colourless or len(colours) == 4
            transcript.begin_answer("b", "m").append([Span("answer", "**six**", "bonus")])
            await settle(pilot)
            assert "**six**" in app.text(), "answers that come later are shown like the others"
            transcript.show_provenance(False)
            await settle(pilot)
            assert "onetwothreefourfive" in app.text()

    asyncio.run(scenario())


def test_code_blocks_are_copied_one_after_another_as_they_were_written() -> None:
    text = "a\n\n```python\nif x:\n\ty = 1\n```\n\n1. b\n\n   ```\n   inner\n   ```\n"

    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            transcript.load([UserRecord("u", "q"), AnswerRecord("a", "m", text, reason="stop")])
            transcript.focus()
            await pilot.press("c", "c", "c", "y")
            asked = [m for m in app.asked if isinstance(m, Transcript.CopyRequested)]
            assert [(m.text, m.number, m.count) for m in asked] == [
                ("if x:\n\ty = 1", 1, 2), ("inner", 2, 2), ("if x:\n\ty = 1", 1, 2), (text, 0, 0),
            ]  # fmt: skip

    asyncio.run(scenario())


def test_the_cursor_walks_messages_and_says_what_is_to_be_done_with_them() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            transcript.load([UserRecord("u", "my question"), AnswerRecord("a", "m", "x", reason="stop", branch=(1, 2))])
            transcript.focus()
            await settle(pilot)
            before = app.text()
            await pilot.press("k", "right_square_bracket", "k")
            await settle(pilot)
            assert app.text() != before, "the cursor is to be seen without colours"
            await pilot.press("e", "j", "j")
            await settle(pilot)
            assert app.text() == before
            kinds = [(type(m).__name__, getattr(m, "node_id", None)) for m in app.asked]
            assert kinds == [
                ("Selected", "a"), ("SiblingRequested", "a"), ("Selected", "u"), ("EditRequested", "u"),
                ("Selected", "a"), ("Selected", None),
            ]  # fmt: skip

    asyncio.run(scenario())


def test_selected_text_has_wrapped_lines_in_one_piece() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(30, 20)) as pilot:
            sentence_ = "a sentence that is too long for one row of this screen"
            transcript.load([AnswerRecord("a", "m", f"{sentence_}\n\nend", reason="stop")])
            await settle(pilot)
            app.screen.text_select_all()
            assert app.screen.get_selected_text() == f"{sentence_}\n\nend"

    asyncio.run(scenario())


def test_another_theme_colours_what_is_on_the_screen() -> None:
    text = "# head\n\n`code` and **bold**\n\n```python\nreturn 1\n```"

    def colours(app: Stage) -> list[object]:
        return [(part.text, part.style.color, part.style.bgcolor) for row in app.strips() for part in row if part.style]

    async def scenario() -> None:
        changed, fresh = Transcript(), Transcript()
        app = Stage(changed)
        async with app.run_test(size=(60, 20)) as pilot:
            changed.load([UserRecord("u", "q"), AnswerRecord("a", "m", text, reason="stop")])
            await settle(pilot)
            before = colours(app)
            app.theme = "textual-light"
            await settle(pilot)
            after = colours(app)
        app = Stage(fresh)
        async with app.run_test(size=(60, 20)) as pilot:
            app.theme = "textual-light"
            fresh.load([UserRecord("u", "q"), AnswerRecord("a", "m", text, reason="stop")])
            await settle(pilot)
            assert after == colours(app) != before

    asyncio.run(scenario())
