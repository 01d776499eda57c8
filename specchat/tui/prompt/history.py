"""What was sent before, and walking through it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol


class PromptHistory(Protocol):
    """Prompts that were sent; who implements it decides where they are kept."""

    def entries(self) -> Sequence[str]:
        """All of them, the oldest first."""
        ...

    def add(self, text: str) -> None:
        """Keep one that was sent now."""
        ...


class MemoryHistory:
    """A history that ends with the app."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._entries = list(entries)

    def entries(self) -> Sequence[str]:
        """All of them, the oldest first."""
        return self._entries

    def add(self, text: str) -> None:
        """Keep one, unless it repeats the last."""
        if not self._entries or self._entries[-1] != text:
            self._entries.append(text)


class Walk:
    """A walk back through the entries that begin with what was typed before it."""

    def __init__(self, entries: Sequence[str], typed: str) -> None:
        seen: dict[str, None] = {}
        for entry in reversed(entries):
            if entry.startswith(typed) and entry != typed:
                seen.setdefault(entry)
        self._found = [typed, *seen]
        self._position = 0

    @property
    def text(self) -> str:
        """Where the walk stands."""
        return self._found[self._position]

    def step(self, by: int) -> str | None:
        """Go to an older (1) or newer (-1) entry; None where there is none."""
        position = self._position + by
        if not 0 <= position < len(self._found):
            return None
        self._position = position
        return self._found[position]
