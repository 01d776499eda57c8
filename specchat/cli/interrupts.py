"""Signals: the first one stops the answer and keeps what is written, a second one ends the process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from specchat.cli.exit_codes import ExitCode

_CODES = {signal.SIGINT: ExitCode.INTERRUPTED, signal.SIGTERM: ExitCode.TERMINATED}


class Interrupts:
    """Remembers which signal asked us to stop.

    Raising from a handler could strike inside a forward pass or a file being written; a flag is looked at between.
    """

    def __init__(self) -> None:
        self.exit_code: ExitCode | None = None

    def arrived(self) -> bool:
        """Whether the user or the system wants us to stop."""
        return self.exit_code is not None

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        code = _CODES[signal.Signals(number)]
        if self.arrived():
            # Native threads may be busy for seconds: the user asked twice, so nothing is waited for.
            os._exit(code)
        self.exit_code = code

    @contextmanager
    def installed(self) -> Iterator[Interrupts]:
        """Handle SIGINT and SIGTERM inside the block."""
        before = {number: signal.signal(number, self._on_signal) for number in _CODES}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
