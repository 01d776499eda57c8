"""Deleting is at once, and in the end nothing of it is left in any file."""

from __future__ import annotations

import sqlite3
import statistics
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from specchat.chat import overwriting, store_file
from specchat.chat.continuing import record
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
        store.delete(chat.id)
        store.overwrite_deleted()
    other.close()
    assert "It is deleted, but parts of its text may be left in" in store.notes[-1]
    store.close()
    assert b"xyzzyplugh" not in b"".join(file.read_bytes() for file in path.parent.iterdir())


def left(path: Path) -> bool:
    """Whether the secret is in any of the files."""
    return b"xyzzyplugh" in b"".join(file.read_bytes() for file in path.parent.iterdir())


def meanwhile(monkeypatch: pytest.MonkeyPatch, statement: str, do: Callable[[], None]) -> None:
    """Have something done right before a statement of the overwriting."""
    opened = overwriting._opened

    class Watched:
        def __init__(self, path: Path) -> None:
            self.connection = opened(path)

        def execute(self, sql: str, values: tuple[int, ...] = ()) -> sqlite3.Cursor:
            if sql.startswith(statement):
                do()
            return self.connection.execute(sql, values)

        def close(self) -> None:
            self.connection.close()

    monkeypatch.setattr(overwriting, "_opened", Watched)


def test_what_another_program_deletes_meanwhile_is_overwritten_too(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = say(store, "something"), say(store, "a xyzzyplugh secret")
    store.delete(mine.id)
    with Store(path) as other:
        with monkeypatch.context() as patch:
            meanwhile(patch, "DELETE FROM leftover", lambda: other.delete(others.id))
            store.overwrite_deleted()
        # Both are killed before they could overwrite it.
        for killed in (store, other):
            killed._file._connection.close()
            killed._file._untried = False
    assert left(path)
    Store(path).close()
    assert not left(path)


def test_the_conversations_can_be_read_while_deleted_text_is_overwritten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, chat = say(store, "keep this"), say(store, "a secret")
    store.delete(chat.id)
    read: list[list[str]] = []

    def look() -> None:
        reader = threading.Thread(target=lambda: read.append(texts(store.thread(keep.id))), daemon=True)
        reader.start()
        reader.join(2)

    meanwhile(monkeypatch, "VACUUM", look)
    done = threading.Thread(target=store.overwrite_deleted)
    done.start()
    done.join()
    assert read == [["keep this"]], "a reader does not wait for it"
    assert store.notes == []


def test_it_is_tried_once_and_again_only_after_another_deletion(
    store: Store, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []

    def hindered(path: Path) -> str:
        tries.append(path)
        return "another program is reading it"

    monkeypatch.setattr(store_file, "overwrite", hindered)
    first, second = say(store, "one"), say(store, "two")
    store.delete(first.id)
    store.overwrite_deleted()
    store.close()
    assert len(tries) == 1, "closing does not wait once more"
    assert len(store.notes) == 1
    with Store(path) as again:
        again.overwrite_deleted()
        again.delete(second.id)
    assert len(tries) == 3


def test_deleted_text_is_overwritten_also_where_the_index_of_words_is_damaged(store: Store, path: Path) -> None:
    chat, keep = say(store, "beta xyzzyplugh", "told"), store.new_chat(model="demo")
    for number in range(20):
        record(store, keep, f"keep w{number}", "told", model="demo")
    store.delete(chat.id)
    store._file._connection.execute("UPDATE word_data SET block = zeroblob(length(block)) WHERE id > 10")
    store.overwrite_deleted()
    assert store.notes == []
    assert [hit.snippet for hit in store.search("w7", 5)] == ["keep w7"]
    store.close()
    assert not left(path)


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
