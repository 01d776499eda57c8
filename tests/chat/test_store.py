"""Conversations are kept: as trees, found by any words, and whole after kills, locks, damage and full disks."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from specchat.chat.conversation import Chat, Node
from specchat.chat.forgetting import forget
from specchat.chat.message import Role
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import NotStored, StoreError, StoreFull
from specchat.drafters.past_text import PastText


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    ticks = iter(range(1_000_000_000, 2_000_000_000))
    with Store(path, patience=0.2, clock=lambda: float(next(ticks))) as opened:
        yield opened


def say(store: Store, *texts: str, model: str = "demo", parent: int | None = None, chat: Chat | None = None) -> Chat:
    """A conversation of questions and answers in turn."""
    chat = chat or store.new_chat(model=model)
    for place, text in enumerate(texts):
        node = store.add(chat.id, parent, (Role.USER, Role.ASSISTANT)[place % 2], text)
        parent = node.id
    return store.chat(chat.id)


def texts(nodes: list[Node]) -> list[str]:
    return [node.text for node in nodes]


def process(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.chat.store_process", *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().rstrip("\n")


# Conversations and their branches


def test_it_lies_among_the_users_data_for_the_user_alone(store: Store, path: Path) -> None:
    say(store, "secret")
    assert store_path().name == "chats.db"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_what_was_said_is_there_after_a_restart(store: Store, path: Path) -> None:
    chat = store.new_chat(model="demo", system="Be brief.")
    asked = store.add(chat.id, None, Role.USER, "Why?")
    answer = store.add(chat.id, asked.id, Role.ASSISTANT, "", model="other")
    figures = {"alpha": 0.71, "depths": {1: 2}, "per_position": (0.5,), "tok_s": float("nan")}
    spans = [("reasoning", "Hm.", "plain"), ("answer", "Because", "accepted")]
    store.write(answer.id, text="Because", reasoning="Hm.", finish_reason="stop", statistics=figures, spans=spans)
    store.close()
    with Store(path) as again:
        assert again.notes == []
        kept = again.thread(chat.id)
        assert texts(kept) == ["Why?", "Because"]
        assert (kept[1].reasoning, kept[1].model, kept[1].finish_reason) == ("Hm.", "other", "stop")
        assert kept[1].statistics == {"alpha": 0.71, "depths": {"1": 2}, "per_position": [0.5], "tok_s": None}
        assert kept[1].spans == tuple(spans)
        assert again.chat(chat.id) == Chat(chat.id, "Why?", "other", "Be brief.", chat.created, kept[1].created + 1)


def test_a_write_without_figures_keeps_those_that_are_there(store: Store) -> None:
    node = store.thread(say(store, "q", "a").id)[-1]
    store.write(node.id, text="a b", statistics={"tokens": 2}, spans=[("answer", "a b", "plain")])
    store.write(node.id, text="a b", finish_reason="cancelled")
    kept = store.node(node.id)
    assert (kept.statistics, kept.spans) == ({"tokens": 2}, (("answer", "a b", "plain"),))


def test_regenerating_and_editing_make_branches_that_can_be_walked(store: Store) -> None:
    chat = say(store, "q", "a1", "q2", "b")
    first, a1, _, b = store.thread(chat.id)
    a2 = store.add(chat.id, first.id, Role.ASSISTANT, "a2")
    assert texts(store.thread(chat.id)) == ["q", "a2"]
    assert texts(store.siblings(a2.id)) == ["a1", "a2"]
    edited = store.add(chat.id, None, Role.USER, "q, edited")
    assert texts(store.thread(chat.id)) == ["q, edited"]
    assert texts(store.siblings(first.id)) == ["q", "q, edited"]

    back = store.walk(edited.id, -1)
    assert back is not None
    assert back.id == first.id
    assert texts(store.thread(chat.id)) == ["q", "a2"]
    assert store.walk(a2.id, -1) == store.node(a1.id)
    assert texts(store.thread(chat.id)) == ["q", "a1", "q2", "b"]
    assert store.walk(a1.id, -1) is None
    assert store.walk(b.id, +1) is None
    assert texts(store.thread(chat.id)) == ["q", "a1", "q2", "b"]

    store.select(chat.id, a1.id)
    assert texts(store.thread(chat.id)) == ["q", "a1"]
    assert store.leaf_below(a1.id) == b.id
    assert texts(store.nodes(chat.id)) == ["q", "a1", "q2", "b", "a2", "q, edited"]


def test_the_end_of_a_long_conversation_can_be_read_alone(store: Store) -> None:
    chat = say(store, *map(str, range(20)))
    assert texts(store.thread(chat.id, last=3)) == ["17", "18", "19"]
    assert texts(store.thread(chat.id, last=50)) == list(map(str, range(20)))
    assert store.thread("nobody") == []


def test_another_conversations_messages_are_no_place_to_go_on(store: Store) -> None:
    one, other = say(store, "one"), say(store, "other")
    foreign = store.thread(other.id)[0].id
    for attempt in (
        lambda: store.add(one.id, foreign, Role.USER, "x"),
        lambda: store.add("nobody", None, Role.USER, "x"),
        lambda: store.select(one.id, foreign),
        lambda: store.write(999, text="x"),
        lambda: store.siblings(999),
        lambda: store.rename("nobody", "x"),
    ):
        with pytest.raises(NotStored, match="no longer there"):
            attempt()
    assert len(store.nodes(one.id)) == len(store.nodes(other.id)) == 1


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("\n \n  What is\tRoPE? \nMore", "What is RoPE?"),
        ("\x1b[2Jred\x07 \x9balert\r\nx", "[2Jred alert"),
        ("\u202eevil\u2066 text", "evil text"),
        ("[bold]x[/bold] <b>", "[bold]x[/bold] <b>"),
        ("x" * 200, "x" * 79 + "…"),
        ("👩‍👩‍👧 family \ud800", "👩‍👩‍👧 family ?"),
        (" \n\x00", ""),
    ],
)
def test_a_conversation_is_named_after_its_first_question(store: Store, said: str, title: str) -> None:
    chat = say(store, said, "a", "second")
    assert chat.title == (title or "second")
    store.rename(chat.id, "A new\nname")
    assert store.chat(chat.id).title == "A new"


def test_lists_show_the_latest_first_and_no_empty_ones(store: Store) -> None:
    assert store.latest() is None
    one, two = say(store, "about cats", "meow"), say(store, "about dogs", "cats again")
    store.new_chat(model="demo")
    assert [(s.title, s.messages) for s in store.chats(10)] == [("about dogs", 2), ("about cats", 2)]
    assert store.latest() == two
    store.write(store.thread(one.id)[-1].id, text="purr")
    assert store.latest() == store.chat(one.id)
    assert [s.title for s in store.chats(1)] == ["about cats"]
    assert [s.title for s in store.chats(10, query="CAT")] == ["about cats", "about dogs"]
    assert [s.title for s in store.chats(10, query="about dog")] == ["about dogs"]
    assert store.chats(10, query="about birds") == []
    store.rename(one.id, "Zoo: Ünlü + 1")
    assert [s.id for s in store.chats(10, query="ünlü + zoo")] == [one.id]


def test_the_beginning_of_an_id_names_a_conversation(store: Store) -> None:
    one = say(store, "one")
    assert store.chat(one.id[:8]) == one
    with pytest.raises(NotStored, match="specchat chats ls"):
        store.chat("")
    with pytest.raises(NotStored, match="There is no conversation 'x%'"):
        store.chat("x%")
    for _ in range(20):
        say(store, "other")
    with pytest.raises(NotStored, match="Write more of it"):
        next(store.chat(digit) for digit in "0123456789abcdef" if sum(s.id[0] == digit for s in store.chats(50)) > 1)


# Search


def test_words_find_messages(store: Store) -> None:
    chat = say(store, "Crème brûlée or std::vector<int> in C++?", "你好，世界。 x->y", "third one")
    say(store, "something else", "C is a letter")
    nodes = store.thread(chat.id)
    for words, place in {
        "creme": 0, "BRÛL": 0, "brûlée crème": 0, "c++": 0, "vector<int>": 0, "世界": 1, "->": 1, "third": 2,
    }.items():  # fmt: skip
        assert [hit.node_id for hit in store.search(words, 10)] == [nodes[place].id], words
    for words in ("creme third", "rème", "vector<float>", "", "  ", "\0", '"', "NOT"):
        assert store.search(words, 10) == [], words
    hit = store.search("VECTOR", 10)[0]
    assert (hit.chat_id, hit.title, hit.role, hit.when) == (chat.id, chat.title, Role.USER, nodes[0].created)
    # Messages are found in branches that are not shown, and no longer by words that were overwritten.
    other = store.add(chat.id, nodes[0].id, Role.ASSISTANT, "draft")
    store.write(other.id, text="final")
    assert store.search("draft", 10) == []
    store.select(chat.id, nodes[-1].id)
    assert [hit.node_id for hit in store.search("fin", 10)] == [other.id]


def test_a_snippet_is_one_safe_line_around_the_words(store: Store) -> None:
    chat = say(store, "before\n" * 50 + "the \x1b[31mn\u202eeedle\tlies\nhere " + "after " * 50 + "Crème")
    found = store.search("here", 1)[0].snippet
    assert found.startswith("…re before before")
    assert "the [31mneedle lies here after" in found
    assert found.endswith(" a…")
    assert len(found) <= 130
    assert store.search("creme", 1)[0].snippet.endswith("Crème")
    assert store.chat(chat.id).title == "before"


ANY_TEXT = st.text(st.characters(), max_size=40)


@given(ANY_TEXT, ANY_TEXT)
@example("\ud800", "\ud800")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_can_be_kept_and_looked_for(store: Store, said: str, looked_for: str) -> None:
    storable = said.encode("utf-8", errors="replace").decode()
    node = store.thread(say(store, said).id)[0]
    assert node.text == storable
    store.search(looked_for, 5)
    store.chats(5, query=looked_for)
    for word in storable.replace("\0", " ").split():
        assert node.id in [hit.node_id for hit in store.search(word, 5)]


def test_ten_thousand_messages_are_searched_and_shown_at_once(store: Store, path: Path) -> None:
    words = [f"{chr(97 + n % 26)}{n:x}{chr(97 + n % 7)}" for n in range(5000)]
    pick = random.Random(1)
    chats = [say(store, "begin") for _ in range(50)]
    roots = [store.thread(chat.id)[0].id for chat in chats]
    rows, number = [], roots[-1]
    for chat, root in zip(chats, roots, strict=True):
        parent = root
        for _ in range(200):
            number += 1
            rows.append((number, chat.id, parent, "assistant", " ".join(pick.choices(words, k=60)), 1.0))
            parent = number
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO node (id, chat_id, parent, role, text, created) VALUES (?,?,?,?,?,?)", rows)
        connection.execute("UPDATE chat SET leaf = (SELECT max(id) FROM node WHERE chat_id = chat.id)")
    connection.close()
    for searched in (words[7], "a", f"{words[3]} {words[4]}", "c++", "世界"):
        assert best_of_three(partial(store.search, searched, 50)) < 0.3, searched
        assert best_of_three(partial(store.chats, 50, query=searched)) < 0.3, searched

    def first_screenful() -> None:
        with Store(path) as fresh:
            latest = fresh.latest()
            assert latest is not None
            assert len(fresh.thread(latest.id, last=30)) == 30

    assert best_of_three(first_screenful) < 0.3


def best_of_three(work: Callable[[], object]) -> float:
    """Seconds: other programs on this machine may hold up one attempt."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


# Deleting


def test_deleted_text_is_in_no_file_any_more(store: Store, path: Path) -> None:
    keep, chat = say(store, "keep this"), say(store, "a xyzzyplugh secret " * 500, "told xyzzyplugh")
    store.write(store.thread(chat.id)[-1].id, text="xyzzyplugh", reasoning="xyzzyplugh")
    store.delete(chat.id)
    for file in path.parent.iterdir():
        assert b"xyzzyplugh" not in file.read_bytes(), file
    assert store.search("xyzzyplugh", 5) == []
    assert texts(store.thread(keep.id)) == ["keep this"]
    assert store.notes == []
    with pytest.raises(NotStored):
        store.chat(chat.id)
    with pytest.raises(NotStored):
        store.delete(chat.id)


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


# What can go wrong


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
