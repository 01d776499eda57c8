"""A user with 10,000 messages: how soon words are found in them, and how soon a conversation is on the screen."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specchat.bench.chat_figures import Figure
from specchat.bench.chat_program import PAINTED, program
from specchat.bench.chat_terminal import Terminal
from specchat.bench.chat_texts import mixed, running
from specchat.chat.message import Role
from specchat.chat.store import Store

MESSAGES: Final = 10_000
_LONG: Final = 2_000
"""Messages of the longest conversation; the others have 100."""
_USUAL: Final = 100
_LISTED, _FOUND = 200, 40
"""What the list of conversations asks for."""
_QUERIES: Final = ("model", "dr", "draft accept", "needle017", "no such word at all")
"""A word of nearly every message, the beginning of many, two words, one message, none."""


def stored(runs: int, messages: int = MESSAGES) -> list[Figure]:
    """Searches in the store and in the list of conversations, and the opening of conversations."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        path = home / "data" / "specchat" / "chats.db"
        with Store(path) as store:
            titles = list(_fill(store, messages))
            searches = [max(_search(store, query) for query in _QUERIES) for _ in range(runs)]
        with program(home=home) as terminal:
            terminal.wait_for(PAINTED)
            terminal.wait_for(r"ctx \d+/")
            shown = [_words_to_list(terminal, titles[1 + run % (len(titles) - 1)]) for run in range(runs)]
            long = [_opened(terminal, titles[0], titles[1 + run % (len(titles) - 1)]) for run in range(runs)]
            terminal.leave()
    return [
        Figure(f"slowest of {len(_QUERIES)} searches in {messages:,} messages", "ms", tuple(searches), 100.0),
        Figure("last letter of a search to the list", "ms", tuple(shown)),
        Figure(
            f"Enter to the first screenful of {_LONG:,} messages", "ms", tuple(long_ms for long_ms, _ in long), 300.0
        ),
        Figure(f"Enter to the first screenful of {_USUAL} messages", "ms", tuple(short for _, short in long), 300.0),
    ]


def _fill(store: Store, messages: int) -> Iterator[str]:
    """Write conversations; their titles, the longest one's first. Each ends with words that tell it."""
    rng = random.Random(3)
    text, left, number = mixed(2_000), messages, 0
    while left > 0:
        title = f"needle{number:03}"
        size = min(left, _USUAL if number else min(_LONG, messages // 2))
        chat, parent = store.new_chat(model="demo", title=title), None
        for place in range(size):
            last = place == size - 1
            role = Role.ASSISTANT if place % 2 else Role.USER
            said = f"end of {title}" if last else _said(rng, text, role)
            parent = store.add(chat.id, parent, role, said).id
            if role is Role.ASSISTANT:
                store.write(parent, text=said, finish_reason="stop", statistics={"tokens": 80, "tok_s": 60.0})
        yield title
        left, number = left - size, number + 1


def _said(rng: random.Random, text: str, role: Role) -> str:
    if role is Role.USER:
        return running(rng.randint(5, 30), rng.randrange(1000))
    at = rng.randrange(len(text) - 2000)
    return text[at : at + rng.randint(200, 1500)]


def _search(store: Store, query: str) -> float:
    started = time.perf_counter()
    store.chats(_LISTED, query=query)
    store.search(query, _FOUND)
    return 1000 * (time.perf_counter() - started)


def _browse(terminal: Terminal, title: str) -> float:
    """Open the list and write a title; milliseconds from its last letter to the one conversation it is about."""
    mark = terminal.press("\x0f")
    terminal.wait_for("F6 rename", mark)
    terminal.press(title[:-1])
    terminal.rest(0.4)
    pressed = time.monotonic()
    mark = terminal.press(title[-1])
    # What was written stands in the line above the list too; the words before it only in what was found.
    moment = terminal.wait_for(rf"end of {title}\b", mark)
    terminal.rest(0.3)
    return 1000 * (moment - pressed)


def _words_to_list(terminal: Terminal, title: str) -> float:
    elapsed = _browse(terminal, title)
    terminal.press("\x1b")
    terminal.rest(0.3)
    return elapsed


def _opened(terminal: Terminal, *titles: str) -> tuple[float, ...]:
    """Open conversations one after another; milliseconds from Enter to the end of each."""
    found = []
    for title in titles:
        _browse(terminal, title)
        pressed = time.monotonic()
        moment = terminal.wait_for(rf"end of {title}\b", terminal.press("\r"))
        found.append(1000 * (moment - pressed))
        terminal.rest(0.3)
    return tuple(found)
