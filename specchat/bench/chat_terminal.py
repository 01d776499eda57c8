"""A program on a pseudo-terminal, seen through what it writes there and when."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

import psutil

PATIENCE_S: Final = 60.0
_KEYS_AT_ONCE: Final = 1024
"""Bytes; a terminal takes no more than 4,096 that are not read yet."""
_LOOK_BACK: Final = 256
"""Bytes before the newest that a text may have begun in."""
_KEPT: Final = 1 << 20
_TOLD: Final = 60
"""Different pieces of what was written that an error shows."""
# Colours, cursor moves and modes, which stand between the characters of a row.
_CONTROLS: Final = re.compile(rb"\x1b(?:\[[0-9;?<>=:]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9])")


class Silent(Exception):
    """What was waited for did not come: a sentence, and what the program wrote last."""


class Terminal:
    """`command` on a terminal of its own, by a user whose files lie in `home`.

    Moments are those of `time.monotonic`. Nothing here draws the screen: a text counts as seen once the program has
    written its characters one after another, whatever colours stand between.
    """

    def __init__(
        self, command: Sequence[str], home: Path, *, columns: int = 120, rows: int = 40, **variables: str
    ) -> None:
        self._written = bytearray()
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment(home, variables), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)

    @property
    def process(self) -> psutil.Process:
        """The program."""
        return psutil.Process(self._process.pid)

    @property
    def mark(self) -> int:
        """A place in what the program wrote: its end now."""
        return len(self._written)

    def press(self, keys: str) -> int:
        """Type; returns the mark before."""
        mark, data = self.mark, keys.encode()
        for at in range(0, len(data), _KEYS_AT_ONCE):
            if at:
                self.rest(0.02)
            os.write(self._master, data[at : at + _KEYS_AT_ONCE])
        return mark

    def paste(self, text: str) -> int:
        """Paste; returns the mark before."""
        return self.press(f"\x1b[200~{text}\x1b[201~")

    def rest(self, seconds: float) -> None:
        """Take in what is written meanwhile."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._take(left)

    def seen(self, pattern: str, since: int = 0) -> re.Match[str] | None:
        """The first place where the program wrote `pattern` after a mark."""
        return re.search(pattern, _characters(self._written[since:]))

    def wait_for(self, pattern: str, since: int = 0, *, patience_s: float = PATIENCE_S) -> float:
        """The moment at which `pattern` was written; raises Silent where it was not in time."""
        return self.wait_until(lambda: self.seen(pattern, since) is not None, repr(pattern), patience_s)

    def wait_for_text(self, text: str, since: int, *, patience_s: float = PATIENCE_S) -> float:
        """The same for a text without colours in it, at little cost: what came before is not looked at again."""
        wanted, looked = text.encode(), since

        def came() -> bool:
            nonlocal looked
            found = self._written.find(wanted, max(since, looked - _LOOK_BACK)) >= 0
            looked = len(self._written)
            return found

        return self.wait_until(came, repr(text), patience_s)

    def wait_until(self, happened: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> float:
        """The moment of the last output, or of the look, after which `happened` is true; raises Silent."""
        end = time.monotonic() + patience_s
        moment = time.monotonic()
        while not happened():
            if time.monotonic() > end or (self._process.poll() is not None and not self._take(0.05)):
                raise Silent(f"{what} did not come within {patience_s:.0f} s. The program wrote last:\n{self._last()}")
            self._take(0.05)
            moment = time.monotonic()
        return moment

    def _last(self) -> str:
        """The last different things that were written: a cursor that blinks writes the same ones for ever."""
        words = re.split(r"\s{2,}|[│╭╮╰╯─▏]+", _characters(self._written[-_KEPT:]))
        latest_first = dict.fromkeys(word.strip() for word in reversed(words))
        return "\n".join(reversed([word for word in latest_first if word][:_TOLD]))

    def leave(self) -> None:
        """Quit as a user does, and wait for the end of the program; raises Silent where it stays."""
        self.press("\x11")
        self.wait_until(lambda: self._process.poll() is not None, "The end of the program", 20.0)

    def _take(self, patience_s: float) -> bool:
        """Wait for output and keep it; whether there was any."""
        if not select.select([self._master], [], [], patience_s)[0]:
            return False
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            # The other end is closed. Rest, or whoever waits would spin.
            time.sleep(min(patience_s, 0.01))
            return False
        self._written += data
        return bool(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)


def environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """Those of a user who has nothing yet but what the cache keeps of models, and `variables`."""
    places = {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("DATA", "STATE", "CONFIG")}
    # COLUMNS and LINES would be believed before the terminal's own size; an installed program has its bytecode.
    unwanted = ("NO_COLOR", "SPECCHAT_MODEL", "COLUMNS", "LINES", "PYTHONDONTWRITEBYTECODE")
    kept = {key: value for key, value in os.environ.items() if key not in unwanted}
    return {**kept, **places, "TERM": "xterm-256color", "COLORTERM": "truecolor", **variables}


def _characters(written: bytes | bytearray) -> str:
    return _CONTROLS.sub(b"", written).decode("utf-8", errors="replace")
