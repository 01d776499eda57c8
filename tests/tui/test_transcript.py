"""The conversation as it is read."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest
from rich.style import Style

from specchat.tui.transcript import Answer, AnswerRecord, Record, Transcript, UserRecord, growing
from specchat.tui.transcript.blocks import parse
from specchat.tui.transcript.code import CodePieces
from specchat.tui.transcript.growing import GrowingMarkdown
from specchat.tui.transcript.inline import Inline
from specchat.tui.transcript.layout import Layout
from specchat.tui.transcript.line import EMPTY, Line
from specchat.tui.transcript.window import MOST, STEP
from specchat.worker.messages import Span
from tests.tui.markdown_texts import document, sentence
from tests.tui.stage import Stage, settle

HOSTILE = (
    "plain <think>secret</think> <b>bold</b> [red]markup[/red] [/x] \x1b[31mred\x1b]0;title\x07 \x9b5m \x00\x7f\r\n"
    "日本語のテキストと全角 👨‍👩‍👧‍👦👍🏽🇩🇪 e\u0301\u0327 שלום עולם مرحبا ก็ \u202egnp.exe\u202c \u2028 \u200b|\ttab\n\n"
    "<think>\nhidden block\n</think>\n\n<div onclick=x>div</div>\n\n"
    "| 表 | 👍🏽 |\n|---|---|\n| שלום | e\u0301 |\n\n```\n\x1b[2J日本語\t👨‍👩‍👧‍👦\n```\n\n- " + "長" * 90 + "\n"
)


def whole(text: str, width: int) -> list[Line]:
    """The rows of a text that is parsed at once, without any sealing."""
    environment: dict[str, object] = {}
    layout = Layout(width, CodePieces())
    rows: list[Line] = []
    for placed in parse(text, Inline(environment), environment):
        rows += [EMPTY, *layout.lines(placed.block)] if rows else layout.lines(placed.block)
    return rows


def drawn(lines: Iterable[Line]) -> list[object]:
    return [(line.plain, line.prefix.spans, line.content.spans, line.fill, line.joint) for line in lines]


def written(text: str, rng: random.Random, most: int) -> GrowingMarkdown:
    """A text that grew in random pieces and was drawn now and then."""
    markdown = GrowingMarkdown()
    position = 0
    while position < len(text):
        step = rng.randint(1, most)
        markdown.append(text[position : position + step])
        position += step
        if rng.random() < 0.3:
            markdown.lines(rng.choice([60, 60, 33]))
    markdown.finish()
    return markdown


def spans(text: str, size: int = 9, channel: str = "answer") -> list[Span]:
    origins = ("accepted", "accepted", "corrected", "bonus")
    return [Span(channel, text[i : i + size], origins[i // size % 4]) for i in range(0, len(text), size)]


@pytest.mark.parametrize("try_every", [1, growing.TRY_EVERY])
@pytest.mark.parametrize("seed", range(8))
def test_an_answer_reads_the_same_however_it_was_cut(
    seed: int, try_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "TRY_EVERY", try_every)
    text = document(seed)
    expected = drawn(whole(text, 60))
    for most in (12, 200):
        assert drawn(written(text, random.Random(seed), most).lines(60)) == expected


def test_the_beginning_of_a_line_does_not_decide_what_it_becomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "TRY_EVERY", 1)
    starts = ("***bold*** text", "```code``` in a line", "1.5 litres", "- item", "#hash", "> quote", "---", "===", "+1")
    for start in starts:
        text = f"a paragraph\n{start}\nand more\n\nend"
        markdown = GrowingMarkdown()
        for character in text:
            markdown.append(character)
            markdown.lines(60)
        markdown.finish()
        assert drawn(markdown.lines(60)) == drawn(whole(text, 60)), start


def test_a_long_list_keeps_its_numbers_and_its_spacing_when_its_items_are_sealed() -> None:
    rng = random.Random(1)
    text = "".join(f"{i}. {sentence(rng)}\n" + ("\n" if i % 7 == 0 else "") for i in range(5, 180))
    assert drawn(written(text, rng, 300).lines(60)) == drawn(whole(text, 60))


def test_a_long_fence_with_a_string_across_its_lines_is_coloured_the_same_when_it_grows() -> None:
    code = "\n".join(f'x{i} = 1  # one\n\ny = """doc\n' + "text\n" * (i % 40) + '"""' for i in range(30))
    text = f"```python\n{code}\n```\n\nend"
    assert drawn(written(text, random.Random(2), 90).lines(60)) == drawn(whole(text, 60))
    inside = [line for line in whole(text, 60) if line.plain.strip() == "text"]
    assert len(inside) > 400
    assert all(line.content.spans[0].style == ".code-string" for line in inside)


def test_a_link_that_is_defined_last_is_a_link_in_the_end() -> None:
    text = "see [the paper][p]\n\n" + "words " * 300 + "\n\nmore\n\n[p]: http://a.b/c\n"
    rows = written(text, random.Random(3), 50).lines(60)
    assert drawn(rows) == drawn(whole(text, 60))
    assert rows[0].plain == "see the paper (http://a.b/c)"


def test_a_streamed_answer_is_drawn_as_one_that_is_loaded() -> None:
    text = document(4, blocks=20)

    async def scenario() -> None:
        streamed, loaded = Transcript(), Transcript()
        async with Stage(streamed).run_test(size=(70, 30)) as pilot:
            answer = streamed.begin_answer("a", "m")
            for piece in range(0, len(text), 150):
                answer.append(spans(text[piece : piece + 150]))
                await pilot.pause(0.01)
            answer.finish("9 tok", "stop")
            await settle(pilot)
            rows = [answer.render_line(y) for y in range(answer.content_size.height)]
        async with Stage(loaded).run_test(size=(70, 30)) as pilot:
            loaded.load([AnswerRecord("a", "m", text, figures_line="9 tok", reason="stop")])
            await settle(pilot)
            other = loaded.query_one(Answer)
            assert rows == [other.render_line(y) for y in range(other.content_size.height)]

    asyncio.run(scenario())


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


def test_the_end_is_followed_until_the_reader_scrolls() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            answer = transcript.begin_answer("a", "m")
            await settle(pilot)
            assert transcript.scroll_y == 0
            for number in range(40):
                answer.append([Span("answer", f"line {number}\n\n", "plain")])
            await settle(pilot)
            assert "line 39" in app.text()
            transcript.scroll_relative(y=-20, animate=False)
            await settle(pilot)
            seen = app.text()
            answer.append([Span("answer", "line 40\n\nline 41\n\n", "plain")])
            await settle(pilot)
            assert app.text() == seen
            transcript.go_to_end()
            answer.append([Span("answer", "line 42\n\n", "plain")])
            await settle(pilot)
            assert "line 42" in app.text()

    asyncio.run(scenario())


def long_conversation(count: int) -> list[Record]:
    return [
        UserRecord(str(i), f"question {i}")
        if i % 2 == 0
        else AnswerRecord(str(i), "m", f"answer **{i}**", reason="stop")
        for i in range(count)
    ]


def test_a_long_conversation_is_read_from_end_to_start_and_back_with_few_widgets() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            transcript.load(long_conversation(90))
            await settle(pilot)
            assert "answer 89" in app.text()
            most = 0
            for _ in range(100):
                top = app.text().split("\n")[3]
                transcript.scroll_relative(y=-12, animate=False)
                await pilot.pause()
                await pilot.pause()
                assert top in app.text(), "what was in sight stays in sight"
                most = max(most, len(transcript.children))
                if "question 0" in app.text():
                    break
            assert "question 0" in app.text()
            assert most <= MOST + STEP + 2
            transcript.focus()
            await pilot.press("G")
            await settle(pilot)
            assert "answer 89" in app.text()
            await pilot.press("g")
            await settle(pilot)
            assert "question 0" in app.text()
            transcript.add_user("n", "newest")
            await settle(pilot)
            assert "newest" in app.text()
            assert len(transcript.records) == 91

    asyncio.run(scenario())


def test_a_high_screen_is_filled_from_the_start() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 180)) as pilot:
            transcript.load(long_conversation(90))
            for _ in range(4):
                await settle(pilot)
            rows = [row.split()[-1] for row in app.text().split("\n") if "answer" in row or "question" in row]
            assert len(rows) >= 50
            assert rows[-1] == "89"

    asyncio.run(scenario())


def test_an_answer_goes_on_while_the_reader_is_far_above() -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            transcript.load(long_conversation(200))
            answer = transcript.begin_answer("live", "m")
            transcript.focus()
            await pilot.press("g")
            answer.append([Span("answer", "written meanwhile", "plain")])
            await settle(pilot)
            transcript.go_to_end()
            answer.append([Span("answer", " and after", "plain")])
            answer.finish("5 tok", "stop")
            await settle(pilot)
            assert "written meanwhile and after" in app.text()
            assert "5 tok" in app.text()

    asyncio.run(scenario())


def test_another_width_lays_everything_out_anew() -> None:
    text = document(7)

    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(90, 30)) as pilot:
            answer = transcript.begin_answer("a", "m")
            answer.append(spans(text[:900]))
            await pilot.resize_terminal(41, 20)
            answer.append(spans(text[900:]))
            answer.finish("", "stop")
            await settle(pilot)
            assert app.misfits() == []
            assert drawn(answer.rows()) == drawn(whole(text, answer.content_size.width))

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
