"""The prompt: stdin first, then a blank line, then files and arguments."""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import UsageError

_PATIENCE_S: Final = 2.0
_MAX_BYTES: Final = 64 << 20


def read_prompt(
    arguments: Sequence[str], files: Sequence[Path], environment: Environment, diagnostics: Diagnostics
) -> str:
    """The whole prompt; empty only when there is nothing to read at all and a terminal is waiting.

    Raises UsageError for an empty prompt, for binary input, and for files that can't be read.
    """
    piped = _read_stdin(environment, diagnostics, alone=not arguments and not files)
    attached = [f"{path.name}:\n```\n{_read_file(path, diagnostics)}\n```" for path in files]
    parts = [part for part in (piped, *attached, " ".join(arguments)) if part.strip()]
    if not parts and not (environment.stdin_is_terminal and not arguments and not files):
        raise UsageError('The prompt is empty. Write one: specchat "Why is the sky blue?"')
    return "\n\n".join(parts)


def _read_stdin(environment: Environment, diagnostics: Diagnostics, *, alone: bool) -> str:
    stream = environment.stdin
    if stream is None or environment.stdin_is_terminal or not _carries_data(stream):
        return ""
    if not alone:
        # A parent's open pipe that nobody writes to looks like input that is late.
        _mention_a_wait(stream, diagnostics)
    data = stream.read(_MAX_BYTES + 1)
    return _decoded(data, "standard input", diagnostics).rstrip("\n")


def _carries_data(stream: BinaryIO) -> bool:
    """Whether stdin is a pipe, a file or a socket, and not a device such as /dev/null."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return hasattr(stream, "getvalue")
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _mention_a_wait(stream: BinaryIO, diagnostics: Diagnostics) -> None:
    try:
        ready, _, _ = select.select([stream], [], [], _PATIENCE_S)
    except (OSError, ValueError, TypeError):
        return
    if not ready:
        diagnostics.note("waiting for standard input; add </dev/null if there is none to come.")


def _read_file(path: Path, diagnostics: Diagnostics) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"The file {path} can't be read: {error.strerror}.") from None
    return _decoded(data, str(path), diagnostics).strip("\n")


def _decoded(data: bytes, name: str, diagnostics: Diagnostics) -> str:
    if len(data) > _MAX_BYTES:
        raise UsageError(f"There is more than {_MAX_BYTES >> 20} MiB in {name}; no context holds that much.")
    if b"\0" in data:
        raise UsageError(f"The contents of {name} are binary, not text.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        diagnostics.note(f"{name} is not valid UTF-8; unreadable bytes were replaced.")
        return data.decode("utf-8-sig", errors="replace")
