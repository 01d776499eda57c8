"""A program on a pseudo-terminal: keys go in, the screen is read back."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pyte

_PATIENCE_S = 90.0


class Terminal:
    """`specchat` with these arguments on a terminal of its own."""

    def __init__(
        self, arguments: Sequence[str], home: Path, *, columns: int = 120, rows: int = 40, **variables: str
    ) -> None:
        self.screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = bytearray()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.modes_before = termios.tcgetattr(slave)
        self._slave = slave
        self.process = subprocess.Popen(
            [sys.executable, "-m", "specchat", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(home, variables),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def read(self, seconds: float = 0.1) -> None:
        """Take in what the program has drawn."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                return
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                return
            self.raw += data
            self._stream.feed(_known_to_pyte(data))

    @property
    def text(self) -> str:
        """The screen."""
        return "\n".join(self.screen.display)

    def wait_for(self, pattern: str, patience_s: float = _PATIENCE_S) -> re.Match[str]:
        """Read until the screen shows `pattern`; fails with the screen where it never does."""
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            self.read()
            found = re.search(pattern, self.text)
            if found:
                return found
        raise AssertionError(f"{pattern!r} did not appear:\n{self.text}")

    def worker(self) -> psutil.Process:
        """The process that computes."""
        return next(
            child
            for child in psutil.Process(self.process.pid).children(recursive=True)
            if "specchat.worker.child" in child.cmdline()
        )

    def exit_code(self, patience_s: float = 20.0) -> int:
        """Wait for the end."""
        end = time.monotonic() + patience_s
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read(0.3)
        return self.process.wait(0.1)

    def modes(self) -> list[Any]:
        """How the terminal is set now: echo, line editing, signals."""
        return termios.tcgetattr(self._slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)


def environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """A user of their own, with nothing yet."""
    places = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
    # COLUMNS and LINES would be believed before the terminal's own size.
    unwanted = ("NO_COLOR", "SPECCHAT_MODEL", "COLUMNS", "LINES")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {**kept, **places, "TERM": "xterm-256color", "COLORTERM": "truecolor", **variables}


def _known_to_pyte(data: bytes) -> bytes:
    # It takes the parameters of private sequences (key protocols, modes with $p) for text.
    return re.sub(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p", b"", data)
