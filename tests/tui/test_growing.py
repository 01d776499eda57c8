"""An answer that grows reads as one that was there at once."""

from __future__ import annotations

import asyncio
import random

import pytest

from specchat.tui.transcript import Answer, AnswerRecord, Transcript, growing
from specchat.tui.transcript.growing import GrowingMarkdown
from tests.tui.drawing import drawn, spans, whole
from tests.tui.markdown_texts import document, sentence
from tests.tui.stage import Stage, settle


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
