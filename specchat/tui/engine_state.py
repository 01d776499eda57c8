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

    def opening(self, load: Load) -> None:
        """A model is being opened."""
        self.load, self.phase, self.loaded, self.stage = load, Phase.LOADING, None, "opening the model"
        self.context_used = 0

    def opened(self, loaded: Loaded) -> None:
        """It is open."""
        self.phase, self.loaded, self.stage = Phase.READY, loaded, ""
        self.used_bytes, self.free_bytes = loaded.used_bytes, loaded.free_bytes

    def lost(self) -> None:
        """Nothing is open."""
        self.phase, self.loaded, self.stage = Phase.FAILED, None, ""

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
        now = self.load.context or (self.loaded.context if self.loaded else _USUAL_CONTEXT)
        return replace(self.load, context=max(now // 2, _SMALLEST_CONTEXT))

    def plain(self) -> Load | None:
        """The same without drafting."""
        return None if self.load is None else replace(self.load, draft=None, method="none", draft_tokens=None)
