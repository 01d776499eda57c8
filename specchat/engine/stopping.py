"""When an answer ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    """The model ended it, or a stop string appeared."""
    LENGTH = "length"
    """The token limit or the end of the context was reached."""
    CANCELLED = "cancelled"
    ERROR = "error"


class Watcher(Protocol):
    """Sees every token that is about to be emitted and may end the answer after one of them."""

    def take(self, tokens: Sequence[int]) -> int | None:
        """Return how many of `tokens` are kept if the answer ends within them, else None."""


class Unwatched:
    """Never ends an answer."""

    def take(self, tokens: Sequence[int]) -> int | None:
        """Keep going."""
        return None


class StopRule:
    """End of generation, then the watcher (stop strings), then the limit on new tokens; the earliest wins.

    The token that ends an answer is itself kept: it was computed, and it is part of the transcript's ids.
    """

    def __init__(self, is_end_of_generation: Callable[[int], bool], max_tokens: int | None, watcher: Watcher) -> None:
        self._is_end = is_end_of_generation
        self._max_tokens = max_tokens
        self._watcher = watcher
        self.emitted = 0
        self.reason: FinishReason | None = None

    @property
    def wanted(self) -> int | None:
        """Tokens still wanted; None without a limit."""
        return None if self._max_tokens is None else self._max_tokens - self.emitted

    def keep(self, tokens: Sequence[int]) -> int:
        """How many of the step's `tokens` to emit; sets `reason` when the answer ends with them."""
        wanted = self.wanted
        kept = list(tokens if wanted is None else tokens[:wanted])
        ended = next((i for i, token in enumerate(kept) if self._is_end(token)), None)
        if ended is not None:
            kept, self.reason = kept[: ended + 1], FinishReason.STOP
        matched = self._watcher.take(kept)
        if matched is not None:
            kept, self.reason = kept[:matched], FinishReason.STOP
        self.emitted += len(kept)
        if self.reason is None and self.wanted is not None and self.wanted <= 0:
            self.reason = FinishReason.LENGTH
        return len(kept)
