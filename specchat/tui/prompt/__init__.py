"""Where the user types."""

from __future__ import annotations

from specchat.tui.prompt.history import MemoryHistory, PromptHistory
from specchat.tui.prompt.prompt_area import PromptArea

__all__ = ["MemoryHistory", "PromptArea", "PromptHistory"]
