"""From whatever happens in a command to one sentence and an exit code."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

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
        Diagnostics(environment).error(str(error) if code is not None else _fault(error))
        return code or ExitCode.ENGINE


def _fault(error: Exception) -> str:
    """A sentence for a fault of the program; the traceback, which holds no text of the user, goes to a file."""
    from specchat.llama.library import NativeLog

    sentence = f"this is a fault in specchat ({type(error).__name__})."
    path = NativeLog.path().with_name("fault.log")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        frames = traceback.format_tb(error.__traceback__)
        path.write_text(f"{type(error).__name__}\n{''.join(frames)}", encoding="utf-8")
    except OSError:
        return sentence
    return f"{sentence} What led to it is in {path}."


def _discard_output() -> None:
    """Let the interpreter's last flush of stdout go nowhere instead of failing aloud."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return
