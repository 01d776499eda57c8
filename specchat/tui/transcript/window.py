"""Which messages of a long conversation are widgets."""

from __future__ import annotations

from dataclasses import dataclass

STEP = 20
"""Messages that are added at an end of the window when it is reached."""
AT_FIRST = 10
"""Messages that a conversation is opened with, which fill most screens; where they don't, a step is added."""
MOST = 60
"""Messages that are widgets at a time, the step that was just added not counted."""


@dataclass(slots=True)
class Window:
    """The messages from `first` to before `last`, of `total`."""

    first: int = 0
    last: int = 0
    total: int = 0

    def at_end(self, total: int) -> None:
        """Show the last ones of a conversation."""
        self.total = self.last = total
        self.first = max(0, total - AT_FIRST)

    def at_start(self) -> None:
        """Show the first ones."""
        self.first, self.last = 0, min(self.total, STEP)

    def around(self, index: int) -> None:
        """Show one message with those before and after it."""
        self.first = max(0, index - STEP // 2)
        self.last = min(self.total, self.first + STEP)

    def holds(self, index: int) -> bool:
        """Whether a message is in the window."""
        return self.first <= index < self.last

    @property
    def later(self) -> int:
        """Messages after the window."""
        return self.total - self.last
