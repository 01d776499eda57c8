"""Long conversations: the end is followed, few messages are widgets, another width changes nothing."""

from __future__ import annotations

import asyncio

import pytest

from specchat.tui.transcript import AnswerRecord, Record, Transcript, UserRecord
from specchat.tui.transcript.window import MOST, STEP
from specchat.worker.messages import Span
from tests.tui.drawing import drawn, spans, whole
from tests.tui.markdown_texts import document
from tests.tui.stage import Stage, settle


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


@pytest.mark.parametrize("at", [0, 3, 40, 88])
def test_from_a_message_that_was_looked_for_a_high_screen_is_filled_and_can_be_scrolled(at: int) -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 80)) as pilot:
            transcript.load(long_conversation(90), at=str(at))
            for _ in range(4):
                await settle(pilot)
            rows = [row.split()[-1] for row in app.text().split("\n") if "answer" in row or "question" in row]
            assert len(rows) >= 12, "no part of the screen is left empty"
            assert str(at) in rows
            transcript.focus()
            seen = app.text()
            await pilot.press("pagedown" if at < 88 else "pageup")
            await settle(pilot)
            assert app.text() != seen

    asyncio.run(scenario())


@pytest.mark.parametrize("key", ["G", "escape"])
def test_who_goes_to_the_end_before_all_of_it_is_read_is_at_the_end_afterwards(key: str) -> None:
    async def scenario() -> None:
        transcript = Transcript()
        app = Stage(transcript)
        async with app.run_test(size=(60, 20)) as pilot:
            whole = long_conversation(400)
            transcript.load(whole[50:150], at="100")
            transcript.focus()
            if key == "G":
                await pilot.press("G")
            else:
                transcript.leave_cursor()
            await settle(pilot)
            assert "answer 149" in app.text(), "as far as it is read"
            transcript.complete(long_conversation(400))
            for _ in range(3):
                await settle(pilot)
            assert "answer 399" in app.text()
            assert (transcript.selected.node_id if transcript.selected else None) == ("399" if key == "G" else None)

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
