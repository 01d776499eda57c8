"""How much is measured: what was asked for, and what of it the time allows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from specchat.bench.prompts import BENCH_CLASSES

_LEAST_TOKENS: Final = 16
"""Of an answer; a shorter one says little of a method."""


class Cell(NamedTuple):
    """A prompt that everyone answers, one after the other."""

    round: int
    kind: str
    temperature: float


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: every arm answers `rounds` times per class and temperature, as far as time allows."""

    kinds: tuple[str, ...] = tuple(BENCH_CLASSES)
    temperatures: tuple[float, ...] = (0.0, 0.8)
    rounds: int = 3
    tokens: int = 48
    budget_s: float | None = 540.0
    """Seconds from the start; None: until all rounds are done. At least one answer of everyone is always given."""
    cycles: int = 3
    """Times that each size of pass is measured three times."""
    largest_pass: int = 32

    def cells(self, number: int) -> Iterator[Cell]:
        """Those of a round: half of them are every class once, so that a round cut short lacks no class first."""
        for turn in range(len(self.temperatures)):
            for place, kind in enumerate(self.kinds):
                yield Cell(number, kind, self.temperatures[(place + turn) % len(self.temperatures)])


QUICK: Final = Extent(kinds=("prose", "code", "edit"), rounds=1, tokens=24, budget_s=75.0, cycles=2, largest_pass=16)
FULL: Final = Extent(temperatures=(0.0, 0.8, 1.0), rounds=5, tokens=128, budget_s=None, cycles=5, largest_pass=64)


@dataclass(frozen=True, slots=True)
class Pace:
    """What one cell and one opening take, all contestants together, in seconds."""

    answer_s: float
    """Of an answer, whatever its length: reading the prompt."""
    token_s: float
    opening_s: float

    def cell_s(self, tokens: int) -> float:
        """Everyone's answers of so many tokens."""
        return self.answer_s + tokens * self.token_s


@dataclass(frozen=True, slots=True)
class Plan:
    """What the time allows."""

    tokens: int
    """The longest answer."""
    cells: tuple[Cell, ...]
    reopens: bool
    """Whether every round has contestants that were opened anew."""
    seconds: float
    """What it is expected to take."""


def planned(extent: Extent, pace: Pace, left_s: float | None) -> Plan:
    """The most of `extent` that `left_s` seconds hold (None: all of it), and never less than one cell.

    Every class and temperature comes before a second round, and before long answers; answers are shortened to no
    less than 16 tokens. Contestants are opened anew for each round where that takes no more than a fifth of it.
    """
    per_round = len(extent.kinds) * len(extent.temperatures)
    tokens = extent.tokens
    if left_s is not None:
        while tokens // 2 >= _LEAST_TOKENS and per_round * pace.cell_s(tokens) > left_s:
            tokens //= 2
    cell_s = pace.cell_s(tokens)
    reopens = left_s is None or pace.opening_s <= 0.2 * per_round * cell_s
    taken, seconds = list[Cell](), 0.0
    for number in range(extent.rounds):
        # The first round finds its contestants open.
        seconds += pace.opening_s if number and reopens else 0.0
        for cell in extent.cells(number):
            if taken and left_s is not None and seconds + cell_s > left_s:
                return Plan(tokens, tuple(taken), reopens, seconds)
            taken.append(cell)
            seconds += cell_s
    return Plan(tokens, tuple(taken), reopens, seconds)


def left_out(extent: Extent, done: set[Cell], tokens: int) -> str:
    """What of `extent` was not measured, in words; empty where all was."""
    said = list[str]()
    if tokens < extent.tokens:
        said.append(f"answers of {tokens} tokens instead of {extent.tokens}")
    for number in range(extent.rounds):
        missing = [cell for cell in extent.cells(number) if cell not in done]
        if len(missing) == len(extent.kinds) * len(extent.temperatures):
            more = extent.rounds - number
            said.append(f"rounds {number + 1} to {extent.rounds}" if more > 1 else f"round {number + 1}")
            break
        for temperature in extent.temperatures:
            kinds = [kind for kind in extent.kinds if Cell(number, kind, temperature) in missing]
            if kinds:
                said.append(f"round {number + 1} of {', '.join(kinds)} at T = {temperature:g}")
    return "; ".join(said)
