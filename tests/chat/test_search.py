"""Messages are found by any words, also among thousands."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from specchat.chat.message import Role
from specchat.chat.store import Store
from tests.chat.talks import say, timed


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
    return min(timed(work) for _ in range(3))
