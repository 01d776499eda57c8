"""Numbers as characters: sparklines, bars and meters."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
_EIGHTHS = " ▏▎▍▌▋▊▉"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last `width` values, one character each, from 0 (lowest) to the largest of them (highest)."""
    last = [max(value, 0.0) for value in values[-width:]] if width > 0 else []
    top = max(last, default=0.0)
    if top <= 0:
        return _LEVELS[0] * len(last)
    return "".join(_LEVELS[min(int(value / top * len(_LEVELS)), len(_LEVELS) - 1)] for value in last)


def bar(share: float, width: int) -> str:
    """A bar of `share` (0 to 1) of `width` characters, exact to an eighth of one, without the spaces after it."""
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def meter(share: float, width: int) -> tuple[str, str]:
    """The full and the empty part of a meter; something used always shows."""
    share = min(max(share, 0.0), 1.0)
    full = max(round(share * width), 1 if share > 0 else 0)
    return "━" * full, "─" * (width - full)
