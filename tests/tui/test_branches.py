"""Branches of a conversation, other conversations, and what outlives the program."""

from __future__ import annotations

from pathlib import Path

from specchat.chat.message import Role
from specchat.tui.choices import AnswerChoices
from specchat.tui.options import ChatOptions
from specchat.tui.prompt import MemoryHistory
from tests.tui.scripted import ScriptedWorker, chat
from tests.tui.seeing import status


async def test_answering_again_makes_a_branch_that_can_be_walked(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(answers=AnswerChoices(seed=7))) as running:
        await running.submit("Hello")
        await running.press("ctrl+r")
        assert running.texts() == ["Hello", "Answer 2."]
        assert running.app.transcript.records[-1].branch == (2, 2)
        assert [ask.branch for ask in running.worker.asks()] == [0, 1]
        await running.press("alt+up", "left_square_bracket")
        assert running.texts() == ["Hello", "Answer 1."]
        await running.submit("/next")
        assert running.texts() == ["Hello", "Answer 2."]
        await running.submit("/next")
        assert "no other version" in running.toasts[-1]
        await running.submit("/prev")
        await running.submit("More")
        assert [text for _, text in running.worker.asks()[-1].messages] == ["Hello", "Answer 1.", "More"]


async def test_editing_a_question_begins_a_branch_beside_it(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "alt+up", "e")
        assert running.app.prompt.text == "First"
        assert "begins a branch" in status(running)
        await running.submit("First, anew")
        assert running.texts() == ["First, anew", "Answer 3."]
        assert running.app.transcript.records[0].branch == (2, 2)
        await running.submit("/edit")
        await running.press("escape")
        running.app.prompt.clear_prompt()
        await running.submit("After that")
        assert running.texts()[:3] == ["First, anew", "Answer 3.", "After that"], "Esc leaves the branch as it was"
        await running.submit("/undo")
        assert running.texts() == ["First, anew", "Answer 3."]
        assert running.app.prompt.text == "After that"


async def test_at_an_answer_the_question_that_it_answers_is_edited(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "e")
        assert running.app.prompt.text == "First"


async def test_going_on_from_an_earlier_answer_begins_a_branch_there(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "b")
        assert running.texts() == ["First", "Answer 1."]
        await running.submit("Other")
        assert running.texts() == ["First", "Answer 1.", "Other", "Answer 3."]
        assert running.app.transcript.records[2].branch == (2, 2)


async def test_leaving_in_the_middle_keeps_the_answer(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        running.worker.write(running.worker.asks()[-1].turn, "Half")
        await running.settle()
        await running.press("ctrl+q")
        latest = running.store.latest()
        assert latest is not None
        answer = running.store.thread(latest.id)[-1]
        assert (answer.text, answer.finish_reason) == ("Half", "cancelled")
        assert answer.role is Role.ASSISTANT


async def test_a_conversation_is_opened_at_the_start(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/system Be brief.")
        await running.submit("Hello")
        await running.submit("/rename My title")
    async with chat(tmp_path, options=ChatOptions(latest=True, prompt="go on")) as running:
        assert running.texts() == ["Hello", "Answer 1."]
        assert running.app.prompt.text == "go on"
        await running.press("enter")
        assert running.worker.asks()[-1].messages[0] == ("system", "Be brief.")
        assert running.store.chats(9)[0].title == "My title"
    async with chat(tmp_path, options=ChatOptions(chat="nothing")) as running:
        assert "There is no conversation" in running.toasts[-1]


async def test_a_new_conversation_leaves_the_answer_to_finish_out_of_sight(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        running.worker.write(running.worker.asks()[-1].turn, "Half")
        await running.settle()
        first = running.app.talk.chat
        assert first is not None
        await running.press("ctrl+n")
        assert running.texts() == []
        assert running.store.thread(first.id)[-1].text == "Half"
        await running.submit("Fresh")
        assert running.worker.asks()[-1].messages == (("user", "Fresh"),)
        assert running.worker.asks()[-1].chat != first.id


async def test_a_system_prompt_of_another_conversation_does_not_leak_into_a_new_one(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(system="Usual.")) as running:
        other = running.store.new_chat(model="demo", system="Talk like a pirate.")
        running.store.add(other.id, None, Role.USER, "Ahoy")
        await running.app.talk.open(other.id)
        assert running.app.talk.system == "Talk like a pirate."
        await running.press("ctrl+n")
        await running.submit("Hello")
        assert running.worker.asks()[-1].messages[0] == ("system", "Usual.")


async def test_esc_after_taking_back_shows_the_branch_again(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.submit("/undo")
        await running.app.action_act("undo")
        await running.settle()
        assert running.app.prompt.text == "Second", "once, however often it is taken back"
        await running.press("escape")
        assert running.texts() == ["First", "Answer 1.", "Second", "Answer 2."]


async def test_a_branch_can_be_walked_there_and_back(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.press("ctrl+r")
        await running.submit("More")
        running.app.transcript.focus()
        await running.press("left_square_bracket")
        assert running.texts() == ["Hello", "Answer 1."], "without a cursor: the newest message that has versions"
        await running.press("right_square_bracket", "k", "k", "k", "left_square_bracket", "right_square_bracket")
        assert running.texts()[:2] == ["Hello", "Answer 2."]
        selected = running.app.transcript.selected
        assert selected is not None
        assert selected.text == "Answer 2.", "the cursor stays on the message"


async def test_what_was_not_sent_is_kept_for_the_next_start(tmp_path: Path) -> None:
    history = MemoryHistory()
    worker = ScriptedWorker(answers=False)
    async with chat(tmp_path, worker, ChatOptions(history=history)) as running:
        for text in ("Hello", "Waits"):
            await running.submit(text)
        running.app.prompt.set_text("Half a thought")
        await running.press("ctrl+q")
        assert history.entries()[-1] == "Waits\nHalf a thought"
