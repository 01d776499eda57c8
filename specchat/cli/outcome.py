"""From whatever happens in a command to one sentence and an exit code."""

from __future__ import annotations

import os
from collections.abc import Callable

from specchat.chat.fault import fault_sentence
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, exit_code_of
from specchat.cli.output import ReaderClosed


def outcome(command: Callable[[], ExitCode], environment: Environment) -> ExitCode:
    """Run `command`; an error becomes a sentence on stderr, never a traceback."""
    try:
        return command()
    except ReaderClosed:
        _discard_output()
        return ExitCode.READER_CLOSED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as error:
        code = exit_code_of(error)
        Diagnostics(environment).error(str(error) if code is not None else fault_sentence(error))
        return code or ExitCode.ENGINE


def _discard_output() -> None:
    """Let the interpreter's last flush of stdout go nowhere instead of failing aloud."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return
