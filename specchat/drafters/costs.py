"""What was measured on this machine: costs and rates, kept from one start to the next."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from specchat.drafters.kept import cache_directory, write_json
from specchat.speculation.arms import Arms
from specchat.speculation.baseline import Baseline
from specchat.speculation.warmup import StartPolicy


def costs_directory() -> Path:
    """Where measured costs are kept; deleting it costs a few steps of measuring."""
    return cache_directory() / "costs"


class _Record:
    """One JSON file under a key. A file that is missing or damaged is the same as none: all can be measured again."""

    def __init__(self, key: Sequence[str], directory: Path | None) -> None:
        self._path = (
            directory or costs_directory()
        ) / f"{hashlib.sha256(chr(10).join(key).encode()).hexdigest()[:32]}.json"

    def read(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            take(json.loads(self._path.read_text(encoding="utf-8")))

    def write(self, data: Mapping[str, Any]) -> None:
        """Whole or not at all; a cache that can't be written is no one's concern."""
        with suppress(OSError):
            write_json(self._path, data)


class PlainRate:
    """The measured rate of plain decoding; `key` names model, device, driver, build and how it is run.

    Where drafting is a fixed choice (`sparing`) no step is made plain for it once a context's rate is known. Nothing is
    read before the first answer has its first token. `directory`: where it is kept; None: among the user's.
    """

    def __init__(self, key: Sequence[str], *, sparing: bool, directory: Path | None = None) -> None:
        self.baseline = Baseline()
        self._record = _Record([*key, "plain"], directory)
        self._sparing = sparing
        self._opened = False

    def begin_turn(self) -> None:
        """An answer has its first token."""
        if not self._opened:
            self._opened = True
            self._record.read(self._take)
        self.baseline.begin_turn()

    def _take(self, data: Mapping[str, Any]) -> None:
        self.baseline = Baseline.from_dict(data)

    def wants_plain_step(self, context: int) -> bool:
        """Whether the step after `context` tokens should be plain, to be measured."""
        return self.baseline.wants_plain_step() and not (self._sparing and self.baseline.knows(context))

    def record(self, depth: int, seconds: float, context: int) -> None:
        """Add a step of `depth` draft tokens after `context` tokens whose pass took `seconds`."""
        self.baseline.record(depth, seconds, context)

    def keep(self) -> None:
        """Write what is known."""
        if self._opened:
            self._record.write(self.baseline.to_dict())


class Costs:
    """What drafting costs and brings with these arms: the arms' curves and rates, and when to start a drafter.

    `directory`: where it is kept; None: among the user's.
    """

    def __init__(
        self,
        key: Sequence[str],
        free: Sequence[str],
        models: Sequence[str],
        max_depth: int,
        directory: Path | None = None,
    ) -> None:
        self._record = _Record([*key, "arms", *free, *models, str(max_depth)], directory)
        self._free, self._models, self._max_depth = tuple(free), tuple(models), max_depth
        self._opened = False
        self.arms = Arms(free, models, max_depth=max_depth)
        self.start = StartPolicy()
        self.declined_s = 0.0
        """Seconds of answers since a model-based drafter was last started."""

    def open(self) -> None:
        """Take over what earlier starts measured; only the first call does anything."""
        if not self._opened:
            self._opened = True
            self._record.read(self._take)

    def _take(self, data: Mapping[str, Any]) -> None:
        per_token, declined_s = data["start_s_per_token"], data["declined_s"]
        numbers = [declined_s, *([] if per_token is None else [per_token])]
        if not all(isinstance(number, float) and number >= 0 for number in numbers):
            raise ValueError("no number")
        arms = Arms.from_dict(data["arms"], self._free, self._models, max_depth=self._max_depth)
        self.arms, self.start, self.declined_s = arms, StartPolicy(per_token), declined_s

    def keep(self) -> None:
        """Write what is known."""
        if self._opened:
            self._record.write(
                {
                    "arms": self.arms.to_dict(),
                    "start_s_per_token": self.start.start_s(1),
                    "declined_s": self.declined_s,
                }
            )
