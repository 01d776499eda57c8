"""What the control groups of this process leave of the machine's memory (containers, systemd slices)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
_MEMBERSHIP: Final = Path("/proc/self/cgroup")
_UNLIMITED: Final = 1 << 60
"""Version 1 writes a number near 2⁶³ where there is no limit."""


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """The tightest group's memory, in bytes."""

    total: int
    free: int
    """Its limit less what is in use, without pages of files that can be dropped."""


def free_within_groups(root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> GroupMemory | None:
    """The group with the least left, of all that this process is in; None where none has a limit."""
    found = [memory for directory in _directories(root, membership) if (memory := _read(directory)) is not None]
    return min(found, key=lambda memory: memory.free, default=None)


def _directories(root: Path, membership: Path) -> Iterator[Path]:
    """The groups of the process and all above them; version 2, and version 1's controller of memory."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    tops = {root: "/", root / "memory": "/"}
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            tops[root] = path
        elif "memory" in controllers.split(","):
            tops[root / "memory"] = path
    for top, path in tops.items():
        # Inside a container the path may name what only the host sees: then the top is this process's own group.
        parts = PurePosixPath(path.lstrip("/")).parts
        for depth in range(len(parts), -1, -1):
            yield top.joinpath(*parts[:depth])


def _read(directory: Path) -> GroupMemory | None:
    for limit_file, usage_file, droppable in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit, usage = _number(directory / limit_file), _number(directory / usage_file)
        if limit is not None and usage is not None and limit < _UNLIMITED:
            used = max(0, usage - _statistic(directory / "memory.stat", droppable))
            return GroupMemory(limit, max(0, limit - used))
    return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        # No such file, or the word "max".
        return None


def _statistic(path: Path, name: str) -> int:
    try:
        rows = (line.split() for line in path.read_text(encoding="ascii").splitlines())
        return next((int(row[1]) for row in rows if len(row) == 2 and row[0] == name), 0)
    except (OSError, ValueError):
        return 0
