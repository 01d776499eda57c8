"""Questions to the user that are answered with yes or no."""

from __future__ import annotations

import select
from collections.abc import Callable

from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment


def can_ask(environment: Environment) -> bool:
    """Whether there is somebody to read a question and to answer it."""
    return environment.stdin is not None and environment.stdin_is_terminal and environment.stderr_is_terminal


def agrees(
    environment: Environment, diagnostics: Diagnostics, question: str, interrupted: Callable[[], bool] = lambda: False
) -> bool:
    """Ask on stderr and read a line of stdin; anything but yes is no."""
    stdin = environment.stdin
    if stdin is None:
        return False
    diagnostics.ask(f"{question} [y/N] ")
    while not interrupted():
        # Not simply a blocking read: Ctrl-C only sets a flag.
        if select.select([stdin], [], [], 0.1)[0]:
            answer = stdin.readline()
            if not answer.endswith(b"\n"):
                diagnostics.ask("\n")
            return answer.strip().lower() in (b"y", b"yes")
    # What follows begins on a line of its own.
    diagnostics.ask("\n")
    return False
