"""Tables for people, laid out for the terminal behind stdout."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Final

from specchat.cli.environment import Environment
from specchat.cli.terminal import columns

if TYPE_CHECKING:
    from rich.console import RenderableType

_LEAST_WIDTH: Final = 30
"""On a narrower terminal its own line breaks are better than columns of single letters."""


class Page:
    """Collects what is printed; colour only on a terminal that wants it."""

    def __init__(self, environment: Environment) -> None:
        from rich.console import Console

        variables = environment.variables
        coloured = environment.stdout_is_terminal and not variables.get("NO_COLOR") and variables.get("TERM") != "dumb"
        self.width = max(_LEAST_WIDTH, columns(environment, environment.stdout))
        self._written = io.StringIO()
        # Rich would look at the process's own streams; this one only lays out and colours.
        self._console = Console(
            file=self._written,
            width=self.width,
            force_terminal=coloured,
            color_system="standard" if coloured else None,
            legacy_windows=False,
            highlight=False,
            markup=False,
        )

    def print(self, what: RenderableType = "") -> None:
        """Add a table, a text, or an empty line."""
        self._console.print(what)

    @property
    def text(self) -> str:
        """All of it. Cells of tables are filled up with spaces, which nobody wants at the end of a line."""
        return "".join(f"{line.rstrip()}\n" for line in self._written.getvalue().splitlines())
