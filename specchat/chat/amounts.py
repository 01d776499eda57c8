"""Numbers of bytes as people read them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB")


def size(count: float | None) -> str:
    """Bytes in the unit that keeps the number short, as disks and hubs count: 98.4 MB."""
    if count is None:
        return "size unknown"
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{_short(count)} {unit}"
        count /= 1000
    return f"{_short(count)} {_UNITS[-1]}"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 100 else f"{number:.0f}"
