"""What was measured of the chat, beside what it should be."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import psutil

_BUSY_FROM: Final = 0.5
"""Processes that want to run before anything was started, from which on a record says so."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One quantity, a value for each run; it should be at most `goal`, where there is one."""

    name: str
    unit: str
    values: tuple[float, ...]
    goal: float | None = None

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool:
        """Whether the median is as it should be."""
        return self.goal is None or self.median <= self.goal

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 4),
            "least": round(min(self.values), 4),
            "most": round(max(self.values), 4),
            "values": [round(value, 4) for value in self.values],
            "goal": self.goal,
            "met": self.met,
        }

    def line(self) -> str:
        """For people."""
        spread = f"[{_number(min(self.values))} … {_number(max(self.values))}]"
        goal = "" if self.goal is None else f"goal {_number(self.goal)}{'' if self.met else '   MISSED'}"
        return f"  {self.name:52}{_number(self.median):>9} {self.unit:5}{spread:22}{goal}".rstrip()


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all lie at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, Any]:
    """What measured, and what else it does at this moment."""
    load = os.getloadavg()[0]
    return {
        "cores": psutil.cpu_count(),
        "load": round(load, 2),
        "busy": round(psutil.cpu_percent(0.5) / 100 * (psutil.cpu_count() or 1), 2),
    }


def machine_line(facts: dict[str, Any]) -> str:
    """The same for people, with a warning where others compute at the same time."""
    line = f"load average {facts['load']:.2f}, {facts['busy']:.2f} of {facts['cores']} cores busy"
    return f"{line}: NOT A QUIET MACHINE" if facts["busy"] > _BUSY_FROM else line


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
