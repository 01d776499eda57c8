"""Deleting is at once, and in the end nothing of it is left in any file."""

from __future__ import annotations

import sqlite3
import statistics
from functools import partial
from pathlib import Path

import pytest

from specchat.chat.forgetting import forget
from specchat.chat.store import Store
from specchat.chat.store_file import NotStored, StoreError
from specchat.drafters.past_text import PastText
from tests.chat.talks import say, texts, timed


def test_deleted_text_is_in_no_file_any_more(store: Store, path: Path) -> None:
    keep, chat = say(store, "keep this"), say(store, "a xyzzyplugh secret " * 500, "told xyzzyplugh")
    store.write(store.thread(chat.id)[-1].id, text="xyzzyplugh", reasoning="xyzzyplugh")
    store.delete(chat.id)
    store.overwrite_deleted()
    for file in path.parent.iterdir():
        assert b"xyzzyplugh" not in file.read_bytes(), file
    assert store.search("xyzzyplugh", 5) == []
    assert texts(store.thread(keep.id)) == ["keep this"]
    assert store.notes == []
    with pytest.raises(NotStored):
        store.chat(chat.id)
    with pytest.raises(NotStored):
        store.delete(chat.id)


def test_what_a_killed_program_had_deleted_is_overwritten_by_the_next_one(store: Store, path: Path) -> None:
    chat = say(store, "a xyzzyplugh secret")
    store.delete(chat.id)
    store._file._connection.close()
    assert b"xyzzyplugh" in b"".join(file.read_bytes() for file in path.parent.iterdir())
    Store(path).close()
    assert b"xyzzyplugh" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_that_deleted_text_could_not_be_overwritten_is_said_and_tried_again(store: Store, path: Path) -> None:
    chat = say(store, "a xyzzyplugh secret")
    with sqlite3.connect(path) as other:
        other.execute("BEGIN")
        other.execute("SELECT count(*) FROM node").fetchone()
        store._file._connection.execute("PRAGMA busy_timeout = 50")
        store.delete(chat.id)
        store.overwrite_deleted()
    other.close()
    assert "It is deleted, but parts of its text may be left in" in store.notes[-1]
    store.close()
    assert b"xyzzyplugh" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def test_a_deletion_is_at_once_also_among_thousands_of_messages(store: Store) -> None:
    talks = [say(store, *(f"a {word} few words {word} {number}" for word in range(40))) for number in range(50)]
    whole = [timed(partial(store.delete, talk.id)) for talk in talks[:3]]
    last = [timed(partial(store.remove, store.thread_ids(talk.id)[-1])) for talk in talks[3:6]]
    # Other programs on this machine may hold up one or the other.
    assert max(statistics.median(whole), statistics.median(last)) < 0.05
    store.overwrite_deleted()
    assert timed(store.overwrite_deleted) < 0.05, "there is nothing left to do"


def test_a_long_conversation_can_be_deleted(store: Store) -> None:
    chat = say(store, *map(str, range(1500)))
    store.delete(chat.id)
    assert store.nodes(chat.id) == []


def test_forgetting_reaches_what_drafts_remember(store: Store, tmp_path: Path) -> None:
    directory = tmp_path / "suffix"
    chat, other = say(store, "one"), say(store, "other")
    for vocabulary in ("first", "second"):
        kept = PastText(directory, vocabulary)
        kept.add(chat.id, [1, 2, 3])
        kept.add(other.id, [4, 5, 6])
        kept.close()
    forget(store, chat.id[:8], directory)
    for vocabulary in ("first", "second"):
        kept = PastText(directory, vocabulary)
        assert list(kept.revisions()) == [other.id]
        kept.close()
    assert [summary.id for summary in store.chats(5)] == [other.id]


def test_a_conversation_stays_where_drafts_can_not_forget_it(store: Store, tmp_path: Path) -> None:
    chat = say(store, "one")
    (tmp_path / "suffix" / "past.sqlite").mkdir(parents=True)
    with pytest.raises(StoreError, match="could not be deleted, so it was kept"):
        forget(store, chat.id, tmp_path / "suffix")
    assert store.chat(chat.id) == chat
    forget(store, chat.id, tmp_path / "none")
    assert not (tmp_path / "none").exists()
