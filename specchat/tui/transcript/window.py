"""Which messages of a long conversation are widgets."""

from __future__ import annotations

from dataclasses import dataclass

STEP = 20
"""Messages that are added at an end of the window when it is reached."""
AT_FIRST = 10
"""Messages that a conversation is opened with, which fill most screens; where they don't, a step is added."""
ABOVE = 2
"""Of those, the messages above the one that it is opened at."""
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

    def opened_at(self, index: int | None, total: int) -> None:
        """Show a conversation from a little above one message on, or its end."""
        if index is None:
            self.at_end(total)
            return
        self.total = total
        self.last = min(total, max(0, index - ABOVE) + AT_FIRST)
        self.first = max(0, self.last - AT_FIRST)

    def shifted(self, shift: int, total: int) -> None:
        """So many messages come before those that were all."""
        self.first, self.last, self.total = self.first + shift, self.last + shift, total

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
