"""Where the engine and llama.cpp write what happens. No text of a conversation goes there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import platformdirs

from specchat.chat.fault import fault_path
from specchat.chat.text import visible

_MOST_BYTES: Final = 64 << 10


def engine_log() -> Path:
    """What the worker and its libraries print."""
    return Path(platformdirs.user_log_path("specchat", appauthor=False)) / "worker.log"


def native_log() -> Path:
    """What llama.cpp says."""
    return engine_log().with_name("llama.log")


def logs() -> dict[str, Path]:
    """All logs by what they are of; the longest comes last."""
    return {"the last fault": fault_path(), "the engine": engine_log(), "llama.cpp": native_log()}


def end_of(path: Path, lines: int) -> list[str]:
    """The last `lines` lines of a log, at most 64 KiB of it; none where it isn't there. Raises OSError."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MOST_BYTES))
            text = file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return visible(text).splitlines()[-lines:]
