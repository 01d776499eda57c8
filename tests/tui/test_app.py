"""The chat as its user meets it: asking, stopping, branches, and what happens when something goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import io
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError, StoreFull
from specchat.chat.text import visible
from specchat.tui.choices import AnswerChoices
from specchat.tui.header import Header
from specchat.tui.notice import Notice
from specchat.tui.options import ChatOptions
from specchat.tui.prompt import MemoryHistory, PromptArea
from specchat.tui.run import run_chat
from specchat.tui.transcript import Answer, AnswerRecord
from specchat.worker.messages import Died, Figures, Finished, Load, LoadFailed, Loading, Note, Prefill
from tests.tui.scripted import FIGURES, Chat, ScriptedWorker, chat


def status(running: Chat) -> str:
    return str(running.app.query_one("#status").render())


def offered(running: Chat) -> bool:
    return running.shown["notice"]


def alive(running: Chat) -> bool:
    return running.app.is_running


def stored(running: Chat) -> list[tuple[str, str]]:
    current = running.app.talk.chat
    assert current is not None
    return [(node.role.value, node.text) for node in running.store.thread(current.id)]


def test_nothing_heavy_is_loaded_before_the_first_paint() -> None:
    heavy = "numpy", "llama_cpp", "huggingface_hub", "jinja2", "typer"
    code = f"import sys, specchat.tui.run; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_asking_shows_stores_and_counts_the_answer(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        assert running.worker.started
        assert running.worker.load() == Load("demo")
        await running.submit("Why is the sky blue?")
        assert running.texts() == ["Why is the sky blue?", "Answer 1."]
        assert running.app.prompt.text == ""
        assert stored(running) == [("user", "Why is the sky blue?"), ("assistant", "Answer 1.")]
        current = running.app.talk.chat
        assert current is not None
        answer = running.store.thread(current.id)[-1]
        assert answer.finish_reason == "stop"
        assert answer.statistics is not None
        assert answer.statistics["alpha"] == 0.75
        assert answer.spans == (("answer", "Answ", "accepted"), ("answer", "er 1.", "bonus"))
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert "2.00× of 30.0 measured" in record.figures_line
        await running.submit("And at night?")
        assert running.worker.asks()[-1].messages == (
            ("user", "Why is the sky blue?"),
            ("assistant", "Answer 1."),
            ("user", "And at night?"),
        )


async def test_what_is_written_while_the_model_loads_is_asked_once_it_is_open(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        running.worker.say(Loading("reading SmolLM2 (98 MB)"))
        await running.settle()
        assert "reading SmolLM2" in status(running)
        await running.submit("First")
        await running.submit("Second")
        assert running.worker.asks() == []
        running.worker.loaded()
        await running.settle()
        await running.settle()
        assert running.texts() == ["First", "Answer 1.", "Second", "Answer 2."]


async def test_esc_stops_and_keeps_what_was_written(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Count")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Prefill(turn, 1024, 4000))
        await running.settle()
        assert "reading 1,024 of 4,000 tokens" in status(running)
        running.worker.write(turn, "one two")
        await running.settle()
        assert "esc stops" in status(running)
        await running.submit("Next question")
        await running.press("escape")
        assert running.app.prompt.text == "Next question", "what waited comes back to the prompt"
        assert stored(running)[-1] == ("assistant", "one two")
        assert not running.waits
        current = running.app.talk.chat
        assert current is not None
        assert running.store.thread(current.id)[-1].finish_reason == "cancelled"


async def test_text_is_saved_while_it_streams(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Count")
        turn = running.worker.asks()[-1].turn
        for number, word in enumerate(("one ", "two ", "three ")):
            running.clock.now += 0.4
            running.worker.write(turn, word)
            await running.settle()
            await asyncio.sleep(0.05)
            assert stored(running)[-1][1] == ("one two " if number else ""), "less than a second is missing"


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


async def test_going_on_from_an_earlier_answer_begins_a_branch_there(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("First")
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "b")
        assert running.texts() == ["First", "Answer 1."]
        await running.submit("Other")
        assert running.texts() == ["First", "Answer 1.", "Other", "Answer 3."]
        assert running.app.transcript.records[2].branch == (2, 2)


async def test_a_dead_worker_costs_the_answer_only(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        turn = running.worker.asks()[-1].turn
        running.worker.write(turn, "Half an ans")
        running.worker.say(Died("The engine was killed, perhaps for want of memory.", turn))
        await running.settle()
        notice = running.app.query_one(Notice)
        assert offered(running)
        assert "want of memory" in str(notice.query_one("#why").render())
        assert "What was written is kept" in running.toasts[-1]
        assert stored(running)[-1] == ("assistant", "Half an ans")
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert record.reason == "error"
        await running.pilot.click("#smaller")
        await running.settle()
        assert running.worker.load() == Load("demo", context=2048)
        assert not offered(running)
        await running.submit("/reload plain")
        assert running.worker.load() == Load("demo", context=2048, method="none")
        running.worker.answers = True
        await running.press("ctrl+r")
        assert running.texts() == ["Hello", "Answer 2."]


async def test_a_model_that_does_not_open_is_offered_again(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        await running.submit("Waiting")
        running.worker.say(LoadFailed("It needs 30 GB, and 12 GB are free.", does_not_fit=True))
        await running.settle()
        assert offered(running)
        running.worker.loads = True
        await running.press("f9")
        assert running.texts() == ["Waiting", "Answer 1."]


async def test_the_next_answer_can_be_plain_and_is_compared(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        for speed, key in ((60.0, "ctrl+s"), (30.0, "")):
            await running.submit("Hello")
            ask = running.worker.asks()[-1]
            running.worker.write(ask.turn, "Yes")
            running.worker.finish(ask.turn, figures=replace(FIGURES, tok_s=speed))
            await running.settle()
            if key:
                await running.press(key)
                assert "next: plain" in str(running.app.query_one(Header).render())
        assert [ask.speculate for ask in running.worker.asks()] == [True, False]
        last = running.app.transcript.records[-1]
        assert isinstance(last, AnswerRecord)
        assert "plain: 0.50× the 60.0 tok/s of the answer before (drafting)" in last.figures_line
        await running.submit("And now?")
        assert running.worker.asks()[-1].speculate, "plain holds for one answer"


async def test_settings_reach_the_next_question(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        for command in ("/set temperature 0.2", "/set max-tokens 99", "/system Be brief.", "/think off"):
            await running.submit(command)
        await running.submit("/set temperature hot")
        assert "temperature is 'hot'" in running.toasts[-1]
        assert running.app.prompt.text == "/set temperature hot", "to be put right"
        await running.submit("Hello")
        ask = running.worker.asks()[-1]
        assert (dict(ask.sampling), ask.max_tokens, ask.thinking) == ({"temperature": 0.2}, 99, False)
        assert ask.messages == (("system", "Be brief."), ("user", "Hello"))


async def test_a_wrong_command_stays_in_the_prompt_and_is_never_sent(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.submit("/modl")
        assert running.app.prompt.text == "/modl"
        assert "/model?" in running.toasts[-1]
        await running.submit("/stop")
        assert "makes no sense just now" in running.toasts[-1]
        await running.submit("//modl")
        await running.submit("/usr/bin is what?")
        assert [text for text in running.texts() if text.startswith("/")] == ["/modl", "/usr/bin is what?"]


async def test_hostile_words_in_sentences_are_shown_as_they_are(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        running.worker.say(Note("[/red] [bold] is no markup"))
        running.worker.say(LoadFailed("[link=x] failed [/]"))
        await running.submit("[/b] <b>hi</b>")
        await running.submit("/[red]")
        assert running.texts()[0] == "[/b] <b>hi</b>"
        assert "[/red] [bold] is no markup" in running.toasts


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


async def test_ctrl_d_leaves_an_empty_prompt_only(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        await running.press("a", "left", "ctrl+d")
        assert alive(running)
        assert running.app.prompt.text == ""
        await running.press("ctrl+d")
        assert not alive(running)


async def test_a_file_goes_with_the_next_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Some notes")
    async with chat(tmp_path) as running:
        await running.submit(f"/file {tmp_path / 'missing'}")
        assert "not there" in running.toasts[-1]
        await running.submit(f"/file {tmp_path / 'notes.txt'}")
        assert running.attachments == ["notes.txt"]
        await running.submit("Summarise")
        assert running.worker.asks()[-1].messages[-1][1] == "notes.txt:\n```txt\nSome notes\n```\n\nSummarise"
        assert running.attachments == []
        running.app.prompt.post_message(PromptArea.FilesDropped(running.app.prompt, (tmp_path / "notes.txt",)))
        await running.settle()
        assert running.attachments == ["notes.txt"]
        await running.submit("/file")
        await running.submit("Again")
        assert running.worker.asks()[-1].messages[-1][1] == "Again"


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


async def test_a_full_disk_keeps_the_text_in_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:

        def full(*_: object, **__: object) -> None:
            raise StoreFull("There is no room left.")

        monkeypatch.setattr(running.store, "add", full)
        await running.submit("Precious words")
        assert "no room left" in running.toasts[-1]
        assert running.app.prompt.text == "Precious words"


async def test_an_answer_that_cannot_be_saved_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")

        def busy(*_: object, **__: object) -> None:
            raise StoreError("Another program is busy.")

        monkeypatch.setattr(running.store, "write", busy)
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        assert "not saved" in running.toasts[-1]
        assert "Another program is busy." in running.toasts[-1]
        assert running.texts()[-1] == "Answer 1."


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


async def test_an_error_is_an_ending_with_a_sentence(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("A very long question")
        turn = running.worker.asks()[-1].turn
        running.worker.say(Finished(turn, "error", Figures(), "The conversation has 9,000 tokens; 4,096 fit."))
        await running.settle()
        record = running.app.transcript.records[-1]
        assert isinstance(record, AnswerRecord)
        assert (record.reason, record.error) == ("error", "The conversation has 9,000 tokens; 4,096 fit.")
        running.worker.answers = True
        await running.submit("Shorter")
        assert running.worker.asks()[-1].messages == (("user", "Shorter"),), "unanswered questions are not sent"


async def test_a_long_conversation_shows_its_end_at_once_and_then_all_of_it(tmp_path: Path) -> None:
    with Store(tmp_path / "chats.db") as store:
        long = store.new_chat(model="demo")
        parent = None
        for number in range(150):
            role = Role.ASSISTANT if number % 2 else Role.USER
            parent = store.add(long.id, parent, role, f"message {number}").id
    async with chat(tmp_path) as running:
        shown: list[int] = []
        load = running.app.transcript.load
        running.app.transcript.load = lambda records: (shown.append(len(records)), load(records))  # type: ignore[method-assign,assignment,arg-type,func-returns-value]
        await running.app.talk.open(long.id)
        for _ in range(100):
            if len(shown) > 1:
                break
            await running.pilot.pause(0.02)
        assert shown == [100, 150]
        await running.submit("And now?")
        assert running.texts()[-3:] == ["message 149", "And now?", "Answer 1."]


async def test_a_system_prompt_of_another_conversation_does_not_leak_into_a_new_one(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(system="Usual.")) as running:
        other = running.store.new_chat(model="demo", system="Talk like a pirate.")
        running.store.add(other.id, None, Role.USER, "Ahoy")
        await running.app.talk.open(other.id)
        assert running.app.talk.system == "Talk like a pirate."
        await running.press("ctrl+n")
        await running.submit("Hello")
        assert running.worker.asks()[-1].messages[0] == ("system", "Usual.")


def test_conversations_that_cannot_be_kept_are_a_sentence_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr("specchat.tui.run.store_path", lambda: tmp_path / "file" / "chats.db")
    complaints = io.StringIO()
    assert run_chat(ChatOptions(), complaints=complaints) == 1
    assert complaints.getvalue().startswith("Conversations can't be kept in ")


def test_keys_that_cannot_be_meant_are_a_sentence_and_no_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.tui.run.store_path", lambda: tmp_path / "chats.db")
    complaints = io.StringIO()
    assert run_chat(ChatOptions(keys={"retri": "f10"}), complaints=complaints) == 2
    assert "Did you mean retry?" in complaints.getvalue()


async def test_a_fault_ends_the_chat_with_a_sentence_and_shows_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with chat(tmp_path) as running:
        try:
            secret = "the conversation"
            raise ZeroDivisionError(secret)
        except ZeroDivisionError:
            running.app._fatal_error()
        told = str(running.app._exit_renderables[-1])
    assert told.startswith("specchat: this is a fault in specchat (ZeroDivisionError). What led to it is in ")
    assert "the conversation" not in told
    assert "the conversation" not in (tmp_path / "specchat" / "log" / "fault.log").read_text()


@pytest.mark.parametrize(
    "command", ["/file ~nobody-of-this-name/a", "/export ~nobody-of-this-name/a", "/file a\0b", "/export /proc/none/a"]
)
async def test_a_path_that_cannot_be_meant_is_a_sentence(tmp_path: Path, command: str) -> None:
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        await running.submit(command)
        assert alive(running)
        assert running.toasts
        assert running.app.prompt.text == visible(command), "to be put right"


@pytest.mark.parametrize(
    "error",
    [CatalogueError("models.toml, [x]: no."), ModelUnavailable("Not here."), OSError(28, "No space left", "/tmp/x")],
)
async def test_what_goes_wrong_in_an_action_is_said_and_the_chat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async with chat(tmp_path) as running:

        async def fails(*_: object) -> None:
            raise error

        monkeypatch.setattr("specchat.tui.handlers.looking.tokens", fails)
        await running.submit("/tokens")
        assert running.toasts[-1] in (str(error), "That could not be done: No space left (/tmp/x).")
        await running.submit("Hello")
        assert running.texts() == ["Hello", "Answer 1."]


async def test_an_editor_that_moves_the_text_leaves_the_prompt_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chat(tmp_path) as running:
        monkeypatch.setenv("VISUAL", "rm")
        monkeypatch.setattr(running.app, "suspend", contextlib.nullcontext)
        running.app.prompt.set_text("Precious words")
        await running.press("ctrl+g")
        assert "left no text" in running.toasts[-1]
        assert running.app.prompt.text == "Precious words"
        gone = tmp_path / "gone"
        monkeypatch.setattr(tempfile, "tempdir", str(gone))
        await running.press("ctrl+g")
        assert "No such file or directory" in running.toasts[-1]
        assert alive(running)


async def test_tab_does_nothing_where_the_names_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chat(tmp_path) as running:

        def fails() -> None:
            raise CatalogueError("models.toml can't be read.")

        monkeypatch.setattr(running.shelf, "rows", fails)
        for words in ("/model q", "/file ~nobody-of-this-name"):
            running.app.prompt.set_text(words)
            await running.press("tab")
            assert running.app.prompt.text == words
        assert alive(running)


async def test_a_question_that_waits_keeps_its_place(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(loads=False)) as running:
        await running.submit("First")
        await running.press("alt+up", "e", "left_square_bracket")
        assert running.app.prompt.text == ""
        running.worker.loaded()
        await running.settle()
        await running.settle()
        assert stored(running) == [("user", "First"), ("assistant", "Answer 1.")]
        await running.press("ctrl+r")
        running.worker.answers = False
        await running.submit("Second")
        await running.press("alt+up", "alt+up", "alt+up", "left_square_bracket")
        running.worker.answer(running.worker.asks()[-1])
        await running.settle()
        assert [text for _, text in stored(running)] == ["First", "Answer 2.", "Second", "Answer 3."]


async def test_attached_files_stay_until_a_question_takes_them(tmp_path: Path) -> None:
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "notes.txt").write_text(f"Notes {place}")
    async with chat(tmp_path) as running:
        await running.submit(f"/file {tmp_path / 'one' / 'notes.txt'}")
        await running.submit(f"/file {tmp_path / 'two' / 'notes.txt'}")
        await running.submit(f"/file {tmp_path / 'two' / 'notes.txt'}")
        await running.submit("/tokens")
        assert running.attachments == ["one/notes.txt", "two/notes.txt"], "what will be sent is shown"
        await running.submit("Compare")
        sent = running.worker.asks()[-1].messages[-1][1]
        assert [sent.count(words) for words in ("Notes one", "Notes two", "Compare")] == [1, 1, 1]
        assert running.attachments == []


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


async def test_a_cut_answer_says_what_cut_it(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("/set max_tokens 24")
        for tokens, words in ((24, "max_tokens is 24"), (20, "the context is full")):
            await running.submit("Tell me")
            ask = running.worker.asks()[-1]
            running.worker.write(ask.turn, "Once")
            running.worker.finish(ask.turn, "length", replace(FIGURES, tokens=tokens))
            await running.settle()
            current = running.app.talk.chat
            assert current is not None
            for _ in range(2):
                assert words in "\n".join(line.plain for line in running.app.query(Answer).last().rows(70))
                await running.app.talk.open(current.id)
                await running.settle()


async def test_enter_twice_asks_once_and_what_is_typed_after_it_stays(tmp_path: Path) -> None:
    async with chat(tmp_path) as running:
        prompt = running.app.prompt
        prompt.set_text("Hello")
        prompt.action_submit()
        prompt.action_submit()
        prompt.insert("more")
        await running.settle()
        await running.settle()
        assert running.texts() == ["Hello", "Answer 1."]
        assert prompt.text == "more"


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


async def test_what_was_not_sent_is_kept_for_the_next_start(tmp_path: Path) -> None:
    history = MemoryHistory()
    worker = ScriptedWorker(answers=False)
    async with chat(tmp_path, worker, ChatOptions(history=history)) as running:
        for text in ("Hello", "Waits"):
            await running.submit(text)
        running.app.prompt.set_text("Half a thought")
        await running.press("ctrl+q")
        assert history.entries()[-1] == "Waits\nHalf a thought"


async def test_ctrl_c_copies_a_selection_once(tmp_path: Path) -> None:
    async with chat(tmp_path, ScriptedWorker(answers=False)) as running:
        await running.submit("Hello")
        running.app.screen.text_select_all()
        await running.press("ctrl+c")
        assert running.waits
        assert "Hello" in running.app.clipboard
        await running.press("ctrl+c")
        assert not running.waits
