"""Deleting a message: what follows it goes with it, other branches stay, and nothing of it is left in the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.chat.forgetting import forget_message
from specchat.chat.message import Role
from specchat.chat.store import Store
from specchat.chat.store_file import NotStored
from specchat.drafters.past_text import PastText


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.db") as opened:
        yield opened


def texts(store: Store, chat_id: str) -> list[str]:
    return [node.text for node in store.thread(chat_id)]


def test_what_follows_goes_and_the_branch_beside_it_is_the_present_one(store: Store) -> None:
    chat = store.new_chat(model="demo")
    first = store.add(chat.id, None, Role.USER, "first")
    old = store.add(chat.id, first.id, Role.ASSISTANT, "old answer")
    old_end = store.add(chat.id, old.id, Role.USER, "after the old answer")
    new = store.add(chat.id, first.id, Role.ASSISTANT, "new answer")
    store.add(chat.id, new.id, Role.USER, "after the new answer")
    assert store.count_below(first.id) == 4
    store.remove(new.id)
    assert texts(store, chat.id) == ["first", "old answer", "after the old answer"]
    store.remove(old_end.id)
    assert texts(store, chat.id) == ["first", "old answer"]
    store.remove(old.id)
    assert texts(store, chat.id) == ["first"]
    assert store.search("answer", 9) == []
    with pytest.raises(NotStored):
        store.remove(new.id)


def test_a_branch_out_of_sight_goes_without_moving_the_present_one(store: Store) -> None:
    chat = store.new_chat(model="demo")
    first = store.add(chat.id, None, Role.USER, "first")
    old = store.add(chat.id, first.id, Role.ASSISTANT, "old answer")
    store.add(chat.id, first.id, Role.ASSISTANT, "new answer")
    store.remove(old.id)
    assert texts(store, chat.id) == ["first", "new answer"]


def test_a_title_goes_with_the_question_it_was_taken_from_but_a_chosen_one_stays(store: Store) -> None:
    chat = store.new_chat(model="demo")
    first = store.add(chat.id, None, Role.USER, "A secret question\nwith more")
    other = store.add(chat.id, None, Role.USER, "A plain question")
    assert store.chat(chat.id).title == "A secret question"
    store.remove(first.id)
    assert store.chat(chat.id).title == "A plain question"
    store.rename(chat.id, "Mine")
    store.remove(other.id)
    assert store.chat(chat.id).title == "Mine"
    assert texts(store, chat.id) == []
    assert store.latest() is None, "it has no message any more"
    store.add(chat.id, None, Role.USER, "Again")
    assert texts(store, chat.id) == ["Again"]
    store.close()
    assert b"secret question" not in store.path.read_bytes()


def test_what_drafts_remember_of_the_conversation_is_forgotten(store: Store, tmp_path: Path) -> None:
    chat = store.new_chat(model="demo")
    first = store.add(chat.id, None, Role.USER, "first")
    kept = PastText(tmp_path / "suffix", "vocabulary")
    kept.add(chat.id, np.arange(100).tolist())
    kept.add("another", np.arange(50).tolist())
    kept.close()
    forget_message(store, first.id, tmp_path / "suffix")
    kept = PastText(tmp_path / "suffix", "vocabulary")
    assert set(kept.revisions()) == {"another"}
    kept.close()
    assert texts(store, chat.id) == []
