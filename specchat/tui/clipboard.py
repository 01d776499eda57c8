"""Two ways to the clipboard: the terminal's own, and the programs of the desktop where they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

_WAIT_S: Final = 2.0
_LONGEST_OSC52: Final = 74_000
"""Bytes of text; terminals drop longer sequences."""

Run = Callable[[Sequence[str], bytes], bool]


def desktop_command(
    environment: Mapping[str, str] = os.environ,
    which: Callable[[str], str | None] = shutil.which,
    platform: str = sys.platform,
) -> list[str] | None:
    """The program that takes text on its standard input and puts it on the clipboard; None where there is none."""
    if platform == "darwin" and which("pbcopy"):
        return ["pbcopy"]
    if platform == "win32":
        return ["clip"]
    if environment.get("WAYLAND_DISPLAY") and which("wl-copy"):
        return ["wl-copy"]
    if environment.get("DISPLAY"):
        if which("xclip"):
            return ["xclip", "-selection", "clipboard"]
        if which("xsel"):
            return ["xsel", "--clipboard", "--input"]
    return None


def hand_over(command: Sequence[str], text: bytes) -> bool:
    """Give `text` to the program; whether it took it."""
    try:
        done = subprocess.run(
            command, input=text, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def copy(
    text: str, through_terminal: Callable[[str], None], command: Sequence[str] | None, run: Run = hand_over
) -> str:
    """Put `text` on the clipboard both ways; returns a sentence about what can't have arrived, or nothing."""
    data = text.encode("utf-8", errors="replace")
    taken = command is not None and run(command, data)
    if len(data) <= _LONGEST_OSC52:
        through_terminal(text)
        return ""
    if taken:
        return ""
    return (
        f"This is {len(data):,} bytes, more than most terminals take for the clipboard, and no program such as wl-copy "
        "or xclip was found. Export it instead: /export."
    )
