"""How far a download is, how fast it goes and how long it still takes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

_WINDOW_S: Final = 10.0
_INTERVAL_S: Final = 0.1
_SETTLED_S: Final = 0.5


class Phase(Enum):
    """What is happening to the file."""

    WAITING = "waiting"
    """Another process fetches it."""
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    """All bytes are here; the hash is still being computed."""
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Progress:
    """One moment of a download of several files. All sizes in bytes."""

    phase: Phase
    file: str
    """The present one."""
    file_done: int
    """Held of it, what an earlier run left included; in VERIFYING, hashed of it."""
    file_size: int
    done: int
    """Held of all files."""
    size: int
    """Of all files."""
    moved: int
    """Fetched over the network in this run."""
    bytes_per_s: float | None
    """Over the last ten seconds; None until there is something to measure."""
    left_s: float | None
    """Seconds left for all files at that speed."""


@dataclass(slots=True)
class _File:
    name: str
    size: int
    held: int


class Meter:
    """Turns counts of bytes into Progress, at most ten times a second. A jump of the machine's clock doesn't matter."""

    def __init__(
        self,
        files: Iterable[tuple[str, int, int]],
        show: Callable[[Progress], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`files`: name, size, and bytes held from earlier runs."""
        self._files = [_File(*file) for file in files]
        self._show = show
        self._clock = clock
        self._shown_at = float("-inf")
        self._present = self._files[0] if self._files else _File("", 0, 0)
        self._moved_before = 0
        self._moved = 0
        # Pairs of time and bytes moved by then.
        self._points: deque[tuple[float, int]] = deque([(clock(), 0)])

    def begin(self, number: int) -> None:
        """The file, counted from 0, that the next counts are about."""
        self._present = self._files[number]
        self._moved_before = self._moved

    def waiting(self) -> None:
        """Another process has the present file."""
        self._publish(Phase.WAITING, self._present.held)

    def count(self, held: int, moved: int, hashed: int) -> None:
        """Bytes of the present file: held, moved in this run, hashed."""
        self._present.held = held
        self._moved = self._moved_before + moved
        if held < self._present.size:
            self._publish(Phase.DOWNLOADING, held)
        else:
            self._publish(Phase.VERIFYING, hashed)

    def end(self) -> None:
        """The present file is whole and in its place."""
        self._present.held = self._present.size
        self._shown_at = float("-inf")
        self._publish(Phase.DONE, self._present.size)

    def _publish(self, phase: Phase, file_done: int) -> None:
        now = self._clock()
        if now - self._shown_at < _INTERVAL_S:
            return
        self._shown_at = now
        self._points.append((now, self._moved))
        while now - self._points[0][0] > _WINDOW_S and len(self._points) > 2:
            self._points.popleft()
        done, size = sum(file.held for file in self._files), sum(file.size for file in self._files)
        rate = self._rate()
        left_s = (size - done) / rate if rate else None
        present = self._present
        self._show(Progress(phase, present.name, file_done, present.size, done, size, self._moved, rate, left_s))

    def _rate(self) -> float | None:
        (start, before), (end, after) = self._points[0], self._points[-1]
        return (after - before) / (end - start) if end - start >= _SETTLED_S else None
