"""Keys, processor and memory while a long answer arrives at 200 tokens a second."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from specchat.bench.chat_figures import Figure, quantile
from specchat.bench.chat_program import ANSWERED, PAINTED
from specchat.bench.chat_terminal import Silent, Terminal

TOKENS: Final = 8000
TAIL: Final = 600
"""Tokens that arrive one by one in all runs but the first: the last ones, when there is most of the answer."""
LIVE, OVER, RENDERED = "live", "over", "rendered.json"
"""Files that the synthetic chat makes: tokens come at their rate now, the answer is over, what it looks like."""

T = TypeVar("T")

Command = Callable[[Path, int, int], Sequence[str]]
"""Runs the chat over a synthetic engine, given a folder for its files, the tokens of the answer, those at the rate."""

# Syllables of Canada: no text or screen has them, and each is typed once.
_LETTERS: Final = "".join(map(chr, range(0x1401, 0x1600)))
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer."""

    echoes: tuple[float, ...]
    """Milliseconds, sorted."""
    share: float
    """Of one core, while tokens came at their rate."""
    grown: float
    """Bytes of resident memory at most beyond those before the question."""
    renders_alike: bool
    """The rows are those of the same text opened from the store."""


def streaming(name: str, command: Command, runs: int, tokens: int = TOKENS, tail: int = TAIL) -> list[Figure]:
    """The whole answer at its rate once, and the end of it in the other runs."""
    found = [_run(command, tokens, tail if run else tokens) for run in range(runs)]
    return [
        Figure(f"{name}: key to echo, p50", "ms", tuple(quantile(run.echoes, 0.5) for run in found)),
        Figure(f"{name}: key to echo, p95", "ms", tuple(quantile(run.echoes, 0.95) for run in found), 80.0),
        Figure(f"{name}: key to echo, longest", "ms", tuple(run.echoes[-1] for run in found)),
        Figure(f"{name}: processor", "%", tuple(100 * run.share for run in found), 60.0),
        Figure(f"{name}: memory grown", "MB", tuple(run.grown / _MB for run in found), 150.0),
        Figure(f"{name}: answers unlike a fresh render", "", tuple(float(not run.renders_alike) for run in found), 0.0),
    ]


def _run(command: Command, tokens: int, at_rate: int) -> Streamed:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Terminal(command(folder, tokens, at_rate), folder) as terminal:
            terminal.wait_for(PAINTED)
            terminal.wait_for(r"ctx \d+/")
            terminal.rest(0.5)
            before = terminal.process.memory_info().rss
            mark = terminal.press("Go on.\r")
            terminal.wait_until((folder / LIVE).exists, "The beginning of the answer")
            share, (echoes, most) = _shared(terminal, lambda: _typed(terminal, (folder / OVER).exists))
            terminal.wait_for(ANSWERED, mark)
            terminal.rest(0.5)
            terminal.leave()
        alike = json.loads((folder / RENDERED).read_text(encoding="utf-8"))
    return Streamed(tuple(sorted(echoes)), share, most - before, alike)


def _shared(terminal: Terminal, work: Callable[[], T]) -> tuple[float, T]:
    """The share of one core that the program takes while `work` is done here."""
    before, started = terminal.process.cpu_times(), time.monotonic()
    result = work()
    after, elapsed = terminal.process.cpu_times(), time.monotonic() - started
    return (after.user + after.system - before.user - before.system) / elapsed, result


def _typed(terminal: Terminal, over: Callable[[], bool]) -> tuple[list[float], int]:
    """Press a key now and then until the answer is over: milliseconds to each echo, and most memory, in bytes."""
    rng, letters, echoes, most = random.Random(4), iter(_LETTERS), list[float](), 0
    while not over():
        terminal.rest(rng.uniform(0.05, 0.15))
        most = max(most, terminal.process.memory_info().rss)
        if letter := next(letters, ""):
            pressed = time.monotonic()
            echoed = terminal.wait_for_text(letter, terminal.press(letter), patience_s=10.0)
            echoes.append(1000 * (echoed - pressed))
    if not echoes:
        raise Silent("The answer was over before a key was pressed.")
    return echoes, most
