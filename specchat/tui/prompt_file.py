"""Prompts written before, kept between starts: one JSON string a line, readable by the user alone."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import platformdirs

_KEPT: Final = 500
_LONGEST: Final = 20_000
"""Characters; a pasted book is not worth keeping here, the conversation has it."""


def prompts_path() -> Path:
    """Where they lie."""
    return Path(platformdirs.user_state_path("specchat", appauthor=False)) / "prompts.jsonl"


class PromptFile:
    """The history of the prompt; where the file can't be read or written it lasts as long as the program."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries = self._read()

    def entries(self) -> Sequence[str]:
        """All of them, the oldest first."""
        return self._entries

    def add(self, text: str) -> None:
        """Keep one, unless it repeats the last or is very long."""
        if len(text) > _LONGEST or (self._entries and self._entries[-1] == text):
            return
        self._entries.append(text)
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                # One write a line: two programs may add at once.
                file.write(json.dumps(text) + "\n")

    def _read(self) -> list[str]:
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        entries = []
        for line in lines[-_KEPT:]:
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, str):
                    entries.append(entry)
        if len(lines) > 2 * _KEPT:
            self._shorten(lines[-_KEPT:])
        return entries

    def _shorten(self, lines: Sequence[str]) -> None:
        beside = self._path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
            beside.replace(self._path)
