"""What the model reads where the context was full: a cut holds in the branches through it, and takes nothing away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat.continuing import earlier
from specchat.chat.conversation import Node
from specchat.chat.message import Role
from specchat.chat.reading import SUMMARY_QUESTION, Cut, asked, cut_in, unread
from specchat.chat.store import Store
from specchat.chat.store_file import NotStored


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.db") as opened:
        yield opened


def conversation(store: Store, turns: int) -> tuple[str, list[Node]]:
    """Questions 1, 2, … with their answers."""
    chat = store.new_chat(model="demo", system="Be brief.")
    nodes: list[Node] = []
    for turn in range(1, turns + 1):
        for role, text in ((Role.USER, f"question {turn}"), (Role.ASSISTANT, f"answer {turn}")):
            nodes.append(store.add(chat.id, nodes[-1].id if nodes else None, role, text))
    return chat.id, nodes


def contents(store: Store, chat_id: str) -> list[str]:
    thread = store.thread(chat_id)
    cut = cut_in(store.thread_ids(chat_id), store.cuts(chat_id))
    return [message.content for message in asked("Be brief.", thread, cut).messages]


def test_what_comes_before_a_cut_is_not_read_and_stays_where_it_is(store: Store) -> None:
    chat_id, nodes = conversation(store, 3)
    store.cut(nodes[2].id)
    assert contents(store, chat_id) == ["Be brief.", "question 2", "answer 2", "question 3", "answer 3"]
    assert store.thread(chat_id) == nodes
    store.cut(nodes[4].id, "They counted.")
    assert contents(store, chat_id) == ["Be brief.", SUMMARY_QUESTION, "They counted.", "question 3", "answer 3"]
    assert unread(store.thread_ids(chat_id), Cut(nodes[4].id)) == 4
    store.uncut([node.id for node in nodes])
    assert contents(store, chat_id)[1] == "question 1"


def test_a_cut_holds_in_every_branch_through_it_and_in_no_other(store: Store) -> None:
    chat_id, nodes = conversation(store, 2)
    store.cut(nodes[2].id)
    again = store.add(chat_id, nodes[2].id, Role.ASSISTANT, "another answer 2")
    assert contents(store, chat_id) == ["Be brief.", "question 2", "another answer 2"]
    store.add(chat_id, nodes[1].id, Role.USER, "another question 2")
    assert contents(store, chat_id)[1:] == ["question 1", "answer 1", "another question 2"]
    store.select(chat_id, again.id)
    assert contents(store, chat_id)[1] == "question 2"


def test_every_message_of_a_prompt_is_known_by_its_place(store: Store) -> None:
    _, nodes = conversation(store, 2)
    found = asked("Be brief.", nodes[:-1], Cut(nodes[0].id, "Before."))
    assert found.nodes == (None, None, None, nodes[0].id, nodes[1].id, nodes[2].id)
    assert found.head == 3
    assert asked("", [], None).head == 0


def test_the_command_line_goes_on_with_what_is_read(store: Store) -> None:
    chat_id, nodes = conversation(store, 3)
    store.cut(nodes[2].id, "Before.")
    store.add(chat_id, nodes[-1].id, Role.USER, "never answered")
    texts = [message.content for message in earlier(store, chat_id).asked().messages]
    assert texts == ["Be brief.", SUMMARY_QUESTION, "Before.", "question 2", "answer 2", "question 3", "answer 3"]


def test_a_deleted_message_takes_its_cut_along(store: Store) -> None:
    chat_id, nodes = conversation(store, 3)
    store.cut(nodes[4].id, "A secret summary.")
    store.remove(nodes[3].id)
    assert store.cuts(chat_id) == {}
    assert contents(store, chat_id) == ["Be brief.", "question 1", "answer 1", "question 2"]
    with pytest.raises(NotStored):
        store.cut(nodes[4].id)
    store.close()
    assert b"secret summary" not in store.path.read_bytes()


def test_deleting_a_conversation_deletes_its_summaries(store: Store) -> None:
    chat_id, nodes = conversation(store, 2)
    store.cut(nodes[2].id, "A secret summary.")
    store.delete(chat_id)
    assert store.cuts(chat_id) == {}
    store.close()
    assert b"secret summary" not in store.path.read_bytes()
