"""What a long run says of itself meanwhile."""

from __future__ import annotations

import time

from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment

_REDRAW_S = 0.2
_SAID_EVERY_S = 20.0
"""Where stderr is no terminal a line now and then says that it goes on."""


class Told:
    """Live progress: a line that changes on a terminal, a line now and then elsewhere."""

    def __init__(self, environment: Environment, diagnostics: Diagnostics) -> None:
        self._live = environment.colour
        self._diagnostics = diagnostics
        self._said = time.monotonic() - _SAID_EVERY_S

    def __call__(self, what: str) -> None:
        """Say what happens now, where it is time to."""
        every = _REDRAW_S if self._live else _SAID_EVERY_S
        if time.monotonic() - self._said < every:
            return
        self._said = time.monotonic()
        (self._diagnostics.progress if self._live else self._diagnostics.note)(what)
