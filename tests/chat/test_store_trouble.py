"""Conversations are whole after kills, locks, damage and full disks."""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path

import pytest

from specchat.chat.store import Store
from specchat.chat.store_file import StoreError, StoreFull
from tests.chat.talks import line, process, say, texts


def test_a_kill_in_the_middle_of_an_answer_loses_at_most_the_last_word(path: Path) -> None:
    child = process("stream", path)
    chat_id, node_id = line(child).split()
    told = 0
    while told < 40:
        told = int(line(child))
    child.kill()
    child.wait()
    with Store(path) as store:
        assert store.notes == []
        node = store.node(int(node_id))
        words = node.text.split()
        assert told <= len(words)
        assert words == [f"word{n}" for n in range(len(words))]
        assert node.spans is not None
        assert [text for _, text, _ in node.spans] == words
        assert node.finish_reason is None
        assert [hit.node_id for hit in store.search(words[-1], 5)] == [node.id]
        store.write(node.id, text=node.text + " end", finish_reason="cancelled")
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    assert chat_id == node.chat_id


def test_a_file_that_another_program_holds_is_said_and_can_still_be_read(store: Store, path: Path) -> None:
    chat = say(store, "before")
    child = process("lock", path)
    assert line(child) == "locked"
    start = time.monotonic()
    with pytest.raises(StoreError, match=r"Another program is busy with the conversations in .*chats\.db"):
        say(store, "meanwhile", chat=chat, parent=None)
    assert time.monotonic() - start < 2
    assert texts(store.nodes(chat.id)) == ["before"]
    child.communicate("\n")
    say(store, "after", chat=chat)
    assert texts(store.nodes(chat.id)) == ["before", "after"]


def test_two_programs_write_at_once(store: Store, path: Path) -> None:
    names = ("left", "right")
    children = [process("talk", path, name, "60") for name in names]
    assert [line(child) for child in children] == ["ready", "ready"]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    chats = [line(child) for child in children]
    assert [child.wait() for child in children] == [0, 0]
    for name, chat in zip(names, chats, strict=True):
        assert texts(store.thread(chat)) == [f"{name} says {number} twice" for number in range(60)]
    assert len(store.search("twice", 500)) == 120


def damaged(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.iterdir() if ".damaged-" in file.name)


@pytest.mark.parametrize("damage", ["noise", "truncated", "header"])
def test_a_damaged_file_is_set_aside_and_said(path: Path, damage: str) -> None:
    with Store(path) as store:
        say(store, *(f"text {number} " * 50 for number in range(100)))
    whole = path.read_bytes()
    content = {
        "noise": random.Random(1).randbytes(5000),
        "truncated": whole[: len(whole) // 2 // 4096 * 4096 + 100],
        "header": whole[:100] + bytes(4000) + whole[4100:],
    }[damage]
    path.write_bytes(content)
    for expected in (1, 2):
        with Store(path) as store:
            assert len(store.notes) == 1
            aside = damaged(path)
            assert len(aside) == expected
            assert aside[-1].read_bytes() == content
            assert aside[-1].name in store.notes[0]
            assert store.notes[0].startswith(f"The conversations in {path} could not be read: the file is damaged.")
            assert store.chats(5) == []
            say(store, "a new beginning")
        with Store(path) as store:
            assert store.notes == []
            assert [one.title for one in store.chats(5)] == ["a new beginning"]
        path.write_bytes(content)


def test_two_programs_that_find_the_damage_at_once_set_it_aside_once(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(random.Random(2).randbytes(5000))
    children = [process("talk", path, name, "3") for name in "abcd"]
    ready = [line(child) for child in children]
    assert sum(text != "ready" for text in ready) == 1
    assert [child.communicate("\n") and child.returncode for child in children] == [0] * 4
    assert len(damaged(path)) == 1
    with Store(path) as store:
        assert sorted(one.model for one in store.chats(9)) == list("abcd")


def test_damage_in_one_place_is_a_sentence_and_the_rest_can_be_read(store: Store, path: Path) -> None:
    good = say(store, "good")
    bad = say(store, *("long " * 2000 for _ in range(20)))
    store.close()
    with sqlite3.connect(path) as connection:
        (page,) = connection.execute(
            "SELECT max(pageno) FROM dbstat WHERE name = 'node' AND pagetype = 'leaf'"
        ).fetchone()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with Store(path) as again:
        assert again.notes == []
        with pytest.raises(StoreError, match=r"is damaged .* chats export"):
            again.nodes(bad.id)
        assert texts(again.thread(good.id)) == ["good"]
    assert path.read_bytes() == content


def test_a_damaged_index_is_made_anew(store: Store, path: Path) -> None:
    say(store, "the needle")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE word_data SET block = x'00ff00ff' WHERE id > 10")
    connection.close()
    assert len(store.search("needle", 5)) == 1
    say(store, "another needle")
    assert len(store.search("needle", 5)) == 2


def test_a_full_disk_is_a_sentence_and_nothing_is_lost(store: Store, path: Path) -> None:
    chat = say(store, "before", "answer")
    node = store.thread(chat.id)[-1]
    pages = store._file._connection.execute("PRAGMA page_count").fetchone()[0]
    store._file._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match=r"no room left to keep conversations in .*chats\.db\. Free some disk"):
        store.write(node.id, text="answer " * 20_000)
    assert texts(store.thread(chat.id)) == ["before", "answer"]
    store._file._connection.execute("PRAGMA max_page_count = 100000")
    store.write(node.id, text="answer " * 20_000)
    assert store.node(node.id).text == "answer " * 20_000


def test_what_is_done_half_is_not_done(store: Store) -> None:
    chat = say(store, "q")

    def half(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM node")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store._file.write(half)
    say(store, "another", chat=chat)
    assert texts(store.nodes(chat.id)) == ["q", "another"]


def test_a_place_that_can_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"can't be kept in .*: File exists\. Check the mode"):
        Store(tmp_path / "file" / "chats.db")
    (tmp_path / "chats.db").mkdir()
    with pytest.raises(StoreError, match="Is a directory"):
        Store(tmp_path / "chats.db")


@pytest.mark.parametrize(
    ("code", "words"),
    [(sqlite3.SQLITE_SCHEMA, "database schema has changed"), (sqlite3.SQLITE_ERROR, "no such table: main.word_data")],
)
def test_a_table_that_is_missed_after_another_program_rewrote_the_file_is_looked_for_again(
    store: Store, code: int, words: str
) -> None:
    chat = say(store, "one")
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code
    failures = [error]

    def work(connection: sqlite3.Connection) -> int:
        if failures:
            raise failures.pop()
        return connection.execute("UPDATE chat SET title = 'two'").rowcount

    assert store._file.write(work) == 1
    assert store.chat(chat.id).title == "two"
    failures += [error, error]
    with pytest.raises(StoreError, match=words):
        store._file.write(work)
