"""What another process does to a store: `python -m tests.chat.store_process VERB PATH ...`, told on stdout."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

from specchat.chat.message import Role
from specchat.chat.store import Store


def tell(*values: object) -> None:
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def stream(path: Path) -> None:
    """Write an answer that grows by a word every 10 ms, and say after each save how many words it has."""
    store = Store(path)
    chat = store.new_chat(model="demo")
    question = store.add(chat.id, None, Role.USER, "count")
    answer = store.add(chat.id, question.id, Role.ASSISTANT, "", model="demo")
    tell(chat.id, answer.id)
    words: list[str] = []
    while True:
        words.append(f"word{len(words)}")
        store.write(answer.id, text=" ".join(words), spans=[("answer", word, "accepted") for word in words])
        tell(len(words))
        time.sleep(0.01)


def lock(path: Path) -> None:
    """Hold the file for writing until told to end."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    tell("locked")
    sys.stdin.readline()
    connection.execute("ROLLBACK")


def talk(path: Path, name: str, messages: str) -> None:
    """Open the store, wait for the word, then keep a conversation of so many messages."""
    store = Store(path)
    tell(*store.notes, "ready")
    sys.stdin.readline()
    chat = store.new_chat(model=name)
    parent = None
    for number in range(int(messages)):
        node = store.add(chat.id, parent, Role.USER, f"{name} says {number}")
        store.write(node.id, text=f"{name} says {number} twice")
        parent = node.id
    tell(chat.id)


if __name__ == "__main__":
    {"stream": stream, "lock": lock, "talk": talk}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])  # type: ignore[operator]
