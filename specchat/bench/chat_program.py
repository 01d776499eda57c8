"""The real chat with the demo, as a user meets it: how soon it is there, how soon it stops, what it gives back."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from specchat.bench.chat_figures import Figure
from specchat.bench.chat_terminal import Silent, Terminal
from specchat.bench.chat_texts import running
from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate

PAINTED: Final = "Ask something, or"
ANSWERED: Final = r"\d+ tok · [\d.]+ tok/s"
_OPEN: Final = r"ctx \d+/"
"""In the header once a model is open."""
_ANSWERING: Final = "answering"
"""In the line of states, which is drawn within 0.2 s after the first words."""
_STOPPED: Final = "■ stopped"
_QUESTION: Final = "What is the capital of France?"
_STORY: Final = "Write a very long story about a lighthouse."
_PREFILLED: Final = 4000
"""Tokens of a question at least, when the stop of a prefill is measured."""
_MB: Final = 1e6


@contextmanager
def program(*arguments: str, home: Path | None = None) -> Iterator[Terminal]:
    """The chat with the demo, by a new user unless `home` is given."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "specchat", *arguments]
        with Terminal(command, home or Path(folder), SPECCHAT_MODEL="demo") as terminal:
            yield terminal


# Start


def start(runs: int) -> list[Figure]:
    """From exec to the first paint, to a key's echo while the model loads, to the answer to a question typed then."""
    _start()  # It brings the files into memory and writes bytecode.
    paints, computed, echoes, answers = zip(*(_start() for _ in range(runs)), strict=True)
    return [
        Figure("first paint after exec", "s", paints, 0.8),
        Figure("processor time until then", "s", computed),
        Figure("key to echo while the model loads", "ms", echoes, 80.0),
        Figure("the demo answers, after exec", "s", answers, 2.5),
    ]


def _start() -> tuple[float, float, float, float]:
    with program() as terminal:
        painted = terminal.wait_for(PAINTED)
        times = terminal.process.cpu_times()
        pressed = time.monotonic()
        # A letter that stands nowhere else.
        echoed = terminal.wait_for_text("ж", terminal.press("ж")) - pressed
        if terminal.seen(_OPEN):
            raise Silent("The model was open before a key was echoed, so that nothing was typed while it loaded.")
        # The letter is gone before more is written: keys of a burst may overtake each other.
        terminal.wait_for(PAINTED, terminal.press("\x7f"))
        answered = terminal.wait_for(_ANSWERING, terminal.press(f"{_STORY}\r"))
        return painted - terminal.started, times.user + times.system, 1000 * echoed, answered - terminal.started


# Stop


def stop(runs: int) -> list[Figure]:
    """Esc while an answer is written, and while a question of 4,000 tokens is read."""
    return [
        Figure("Esc to stopped while generating", "ms", tuple(_stops_of_answers(runs)), 300.0),
        Figure("Esc to stopped while 4,000 tokens are read", "ms", tuple(_stops_of_prefills(runs)), 1000.0),
    ]


def _stops_of_answers(runs: int) -> Iterator[float]:
    rng = random.Random(1)
    with program("--method", "none") as terminal:
        terminal.wait_for(PAINTED)
        for _ in range(runs):
            terminal.wait_for(_ANSWERING, terminal.press(f"{_STORY}\r"))
            terminal.rest(rng.uniform(0.3, 0.8))
            yield _stopped(terminal)


def _stops_of_prefills(runs: int) -> Iterator[float]:
    rng = random.Random(2)
    with program("--method", "none", "--ctx", "8192") as terminal:
        terminal.wait_for(_OPEN)
        for run in range(runs):
            terminal.paste(running(_PREFILLED, run))
            terminal.wait_for("pasted")
            mark = terminal.press("\r")
            terminal.wait_for(r"reading .*of [\d,]+ tokens", mark)
            terminal.rest(rng.uniform(0.1, 0.6))
            yield _stopped(terminal)
            if terminal.seen(_ANSWERING, mark):
                raise Silent("The question was read to its end before Esc: this machine is too quick for it.")


def _stopped(terminal: Terminal) -> float:
    """Press Esc; milliseconds until the screen says so. A new conversation is begun."""
    pressed = time.monotonic()
    moment = terminal.wait_for(_STOPPED, terminal.press("\x1b"))
    mark = terminal.press("\x0e")
    terminal.wait_for("Ask something below", mark)
    # What stands around the text is drawn a few times a second: "answering" must have gone before it can come again.
    terminal.rest(0.5)
    return 1000 * (moment - pressed)


# Switching


def switch(runs: int) -> list[Figure]:
    """The engine's resident size each time the demo is opened in the place of another model of its size."""
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other.gguf"
        shutil.copyfile(locate(Catalogue().find("demo").target), other)
        with program("-n", "8") as terminal:
            terminal.wait_for(_OPEN)
            before = _resident_after_answer(terminal)
            sizes = [_resident_of(terminal, model) for _ in range(runs) for model in (str(other), "demo")]
    return [
        Figure("resident size of the engine with the demo", "MB", (before / _MB,)),
        Figure("the same with another model", "MB", tuple(size / _MB for size in sizes[::2])),
        Figure("back at the demo, of the size before", "%", tuple(100 * size / before for size in sizes[1::2]), 110.0),
    ]


def _resident_of(terminal: Terminal, model: str) -> int:
    terminal.wait_for("Ask something below", terminal.press("\x0e"))
    terminal.wait_for("/model", terminal.paste(f"/model {model}"))
    # The header names the model that is open; while none is, it says so, if it is drawn in time.
    name = "other.gguf" if model != "demo" else "embedded demo"
    terminal.wait_for(rf"{name} [·←]", terminal.press("\r"))
    return _resident_after_answer(terminal)


def _resident_after_answer(terminal: Terminal) -> int:
    """Bytes; an answer first touches all the memory that one needs."""
    terminal.wait_for(ANSWERED, terminal.press(f"{_QUESTION}\r"))
    terminal.rest(0.2)
    return int(_engine(terminal).memory_info().rss)


def _engine(terminal: Terminal) -> psutil.Process:
    for child in terminal.process.children(recursive=True):
        if "specchat.worker.child" in child.cmdline():
            return child
    raise Silent("The chat has no engine.")
