"""Conversations to try a store with, and programs that use one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from specchat.chat.conversation import Chat, Node
from specchat.chat.message import Role
from specchat.chat.store import Store


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


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
