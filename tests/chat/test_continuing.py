"""A question on the command line goes on where a stored conversation stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.sources import HubQuery, LocalFile
from specchat.chat import continuing, reading
from specchat.chat.continuing import begin, earlier, model_of, record
from specchat.chat.message import Message, Role
from specchat.chat.store import Store
from specchat.chat.store_file import NotStored
from specchat.tui.threads import told


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.db") as opened:
        yield opened


def said(store: Store, chat_id: str | None = None) -> list[str]:
    """What is read before the next question."""
    return [message.content for message in earlier(store, chat_id).asked().messages]


def test_there_is_nothing_to_continue_at_first(store: Store) -> None:
    store.new_chat(model="demo")
    with pytest.raises(NotStored, match="no conversation to continue yet"):
        earlier(store, None)
    with pytest.raises(NotStored, match="There is no conversation 'abc'"):
        earlier(store, "abc")


def test_question_and_answer_join_the_conversation(store: Store) -> None:
    chat = store.new_chat(model="demo", system="Be brief.")
    record(store, chat, "Why?", "Because.", model="demo", reasoning="Hm.", statistics={"tokens": 2})
    other = record(store, store.new_chat(model="demo"), "Else?", "No.", model="demo")
    before = earlier(store, chat.id[:10])
    found = before.chat
    assert found == store.chat(chat.id)
    assert before.asked().messages == (
        Message(Role.SYSTEM, "Be brief."),
        Message(Role.USER, "Why?"),
        Message(Role.ASSISTANT, "Because.", reasoning="Hm."),
    )
    assert before.asked("Be long.").messages[0] == Message(Role.SYSTEM, "Be long.")
    node = record(
        store, found, "And shorter?", "So.", model="big", finish_reason="length", spans=[("answer", "So.", "plain")]
    )
    assert [one.text for one in store.thread(chat.id)] == ["Why?", "Because.", "And shorter?", "So."]
    assert (node.model, node.finish_reason, node.spans) == ("big", "length", (("answer", "So.", "plain"),))
    assert earlier(store, None).chat.id == chat.id
    assert said(store, other.chat_id) == ["Else?", "No."]


def test_what_was_never_answered_is_left_out_and_becomes_a_branch(store: Store) -> None:
    chat = store.new_chat(model="demo")
    record(store, chat, "q", "a", model="demo")
    begin(store, chat, "killed before the first word", model="demo")
    assert said(store) == ["q", "a"]
    record(store, chat, "again", "b", model="demo")
    assert [one.text for one in store.thread(chat.id)] == ["q", "a", "again", "b"]
    assert [one.text for one in store.siblings(store.thread(chat.id)[2].id)] == [
        "killed before the first word",
        "again",
    ]


def test_only_questions_that_were_answered_are_sent_wherever_the_others_stand(store: Store) -> None:
    chat = store.new_chat(model="demo")
    killed = begin(store, chat, "killed", model="demo")
    asked = store.add(chat.id, killed.id, Role.USER, "never begun")
    again = store.add(chat.id, asked.id, Role.USER, "asked")
    answer = store.add(chat.id, again.id, Role.ASSISTANT, "answered")
    store.add(chat.id, answer.id, Role.USER, "waiting")
    assert said(store) == ["asked", "answered"]
    all_of_it = told(reading.asked("", store.thread(chat.id)))
    assert all_of_it == (("user", "asked"), ("assistant", "answered"), ("user", "waiting"))


def test_a_model_is_found_again_by_id_name_reference_or_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    file, query = LocalFile(tmp_path / "a.gguf"), HubQuery("user/tiny", None, "Q8_0")
    monkeypatch.setattr(continuing, "is_here", lambda source: source in (file, query))
    catalogue, chat = Catalogue(), store.new_chat(model="")
    catalogue.entries = {"gone": Entry("gone", "Gone", HubQuery("user/gone")), "named": Entry("named", "A Name", file)}
    found = {
        "named": "named",
        "A Name": "named",
        str(file.path): str(file.path),
        "hf:user/tiny:Q8_0": "hf:user/tiny:Q8_0",
        "user/tiny:Q8_0": "hf:user/tiny:Q8_0",
        "gone": None,
        "Gone": None,
        "user/gone": None,
        "no such": None,
        "": None,
    }
    assert {kept: model_of(replace(chat, model=kept), catalogue) for kept in found} == found


def test_an_answer_can_be_saved_while_it_is_written(store: Store) -> None:
    chat = store.new_chat(model="demo")
    answer = begin(store, chat, "q", model="demo")
    store.write(answer.id, text="half of")
    assert said(store) == ["q", "half of"]
