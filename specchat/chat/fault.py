"""A fault of the program, told in a sentence; where it happened goes to a file, without any text of the user."""

from __future__ import annotations

import traceback
from pathlib import Path

import platformdirs


def fault_path() -> Path:
    """Where the last fault is described."""
    return Path(platformdirs.user_log_path("specchat", appauthor=False)) / "fault.log"


def fault_sentence(error: BaseException) -> str:
    """Write down where `error` happened (files and lines, no values) and say so."""
    sentence = f"this is a fault in specchat ({type(error).__name__})."
    path = fault_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        frames = traceback.format_tb(error.__traceback__)
        path.write_text(f"{type(error).__name__}\n{''.join(frames)}", encoding="utf-8")
    except OSError:
        return sentence
    return f"{sentence} What led to it is in {path}."
