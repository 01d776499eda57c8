"""What is open in the worker, and what is asked of it next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from specchat.worker.messages import Figures, Load, Loaded

_SMALLEST_CONTEXT: Final = 1024
_USUAL_CONTEXT: Final = 8192


class Phase(Enum):
    """Where the model stands."""

    NONE = auto()
    LOADING = auto()
    READY = auto()
    FAILED = auto()


@dataclass(slots=True)
class EngineState:
    """The model that is open, being opened, or was lost."""

    load: Load | None = None
    """What was asked for last."""
    phase: Phase = Phase.NONE
    loaded: Loaded | None = None
    stage: str = ""
    """What happens while it is opened."""
    context_used: int = 0
    used_bytes: int = 0
    free_bytes: int = 0
    own_bytes: int = 0
    """What closing the open model would free; 0 where none is open."""
    _context: int = 0
    """Of this model when it was open last, in tokens; 0 where it never was."""
    _under_way: int = 0
    """Models asked for whose opening has not ended."""

    def opening(self, load: Load) -> None:
        """A model is being opened."""
        if self.load is None or load.model != self.load.model:
            self._context = 0
        self.load, self.phase, self.loaded, self.stage = load, Phase.LOADING, None, "opening the model"
        self.context_used = 0
        self._under_way += 1

    def ended(self) -> bool:
        """An opening has ended, well or not; False where another model was asked for since, which then counts."""
        self._under_way = max(self._under_way - 1, 0)
        return self._under_way == 0

    def opened(self, loaded: Loaded) -> None:
        """It is open."""
        self.phase, self.loaded, self.stage = Phase.READY, loaded, ""
        self.used_bytes, self.free_bytes = loaded.used_bytes, loaded.free_bytes
        self.own_bytes, self._context = loaded.own_bytes, loaded.context

    def lost(self) -> None:
        """Nothing is open, and nothing is being opened."""
        self.phase, self.loaded, self.stage = Phase.FAILED, None, ""
        self.own_bytes = self._under_way = 0

    @property
    def context(self) -> int:
        """Tokens: as asked for, else as the model had when it was open last; a guess where it never was."""
        asked = self.load.context if self.load else None
        return asked or self._context or _USUAL_CONTEXT

    def take(self, figures: Figures) -> None:
        """What an answer says of context and memory."""
        if figures.context_used:
            self.context_used = figures.context_used
        if figures.used_bytes or figures.free_bytes:
            self.used_bytes, self.free_bytes = figures.used_bytes, figures.free_bytes

    def smaller(self) -> Load | None:
        """The same with half the context."""
        if self.load is None:
            return None
        return replace(self.load, context=max(self.context // 2, _SMALLEST_CONTEXT))

    def larger(self, most: int) -> Load | None:
        """The same with twice the context, but no more than `most` tokens; None where that is no more than now."""
        context = min(2 * self.context, most)
        return None if self.load is None or context <= self.context else replace(self.load, context=context)

    def plain(self) -> Load | None:
        """The same without drafting."""
        return None if self.load is None else replace(self.load, draft=None, method="none", draft_tokens=None)
