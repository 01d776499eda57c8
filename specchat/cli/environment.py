"""The streams and variables a command runs with, passed in rather than looked up, so that tests never patch `sys`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO


@dataclass(frozen=True, slots=True)
class Environment:
    """Standard streams as bytes, whether each is a terminal, and the environment variables."""

    stdin: BinaryIO | None
    stdout: BinaryIO
    stderr: BinaryIO
    stdin_is_terminal: bool
    stdout_is_terminal: bool
    stderr_is_terminal: bool
    variables: Mapping[str, str] = field(default_factory=dict)
    open_chat: Callable[[Mapping[str, Any], str], int] | None = None
    """Opens the full-screen chat for these options with a text in its prompt; the composition root gives it."""

    @property
    def colour(self) -> bool:
        """Whether stderr may carry colour: a terminal, and NO_COLOR (no-color.org) not set to anything."""
        dumb = self.variables.get("TERM") == "dumb"
        return self.stderr_is_terminal and not self.variables.get("NO_COLOR") and not dumb

    @classmethod
    def of_process(cls, open_chat: Callable[[Mapping[str, Any], str], int] | None = None) -> Environment:
        """The real ones; a stream that was closed before the start is treated as empty."""
        return cls(
            stdin=sys.stdin.buffer if sys.stdin else None,
            stdout=sys.stdout.buffer if sys.stdout else _null(),
            stderr=sys.stderr.buffer if sys.stderr else _null(),
            stdin_is_terminal=bool(sys.stdin and sys.stdin.isatty()),
            stdout_is_terminal=bool(sys.stdout and sys.stdout.isatty()),
            stderr_is_terminal=bool(sys.stderr and sys.stderr.isatty()),
            variables=os.environ,
            open_chat=open_chat,
        )


def _null() -> BinaryIO:
    return open(os.devnull, "wb")  # noqa: PTH123 - lives as long as the process
