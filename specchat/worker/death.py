"""Why a worker ended, as a sentence for the user."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

from specchat.chat.text import visible
from specchat.worker.logs import engine_log, native_log

DIES_QUICKLY = {"GGML_NO_BACKTRACE": "1"}
"""A worker's environment: else llama.cpp starts a debugger when it aborts, whose backtrace takes seconds."""
_LOG_LIMIT_BYTES = 1 << 20
_LONGEST_TAIL = 64 << 10
_LONGEST_LINE = 300
_TELLING = re.compile("error|failed|out of memory|not supported", re.IGNORECASE)
_FAULT_HANDLER = "Fatal Python error"
_WHAT_NOW = "What was written stays. Open the model again, perhaps with a smaller context or another draft."
_CRASHES = {
    "SIGBUS": "the model file could no longer be read; was it changed, or its disk taken away?",
    "SIGILL": "llama.cpp was built for another processor; install it anew on this machine.",
}


class Witness:
    """Sees a worker's birth, so that its death can be told from what the logs and the kernel said since."""

    def __init__(self) -> None:
        self._own, self._native = engine_log(), native_log()
        with contextlib.suppress(OSError):
            if self._own.stat().st_size > _LOG_LIMIT_BYTES:
                self._own.unlink()
        self._starts = {path: _size(path) for path in (self._own, self._native)}
        self._out_of_memory = _processes_killed_for_memory()

    @contextlib.contextmanager
    def log(self) -> Iterator[int]:
        """A descriptor for what the worker and its libraries print; nothing of it may reach the terminal."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            self._own.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._own, flags, 0o600)
        except OSError:
            # A home that can't be written costs the log, not the chat.
            descriptor = os.open(os.devnull, os.O_WRONLY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def sentence(self, status: int) -> str:
        """What happened to a worker that ended with `status`, as `Popen.returncode` has it, and what to do now."""
        return f"{self._cause(status)} {_WHAT_NOW}"

    def _cause(self, status: int) -> str:
        if status == -signal.SIGKILL:
            if _processes_killed_for_memory() > self._out_of_memory:
                return "This machine ran out of memory, and the system ended the engine (SIGKILL)."
            return "Something ended the engine from outside (SIGKILL); the system does so when memory runs out."
        if status >= 0:
            return f"The engine ended by itself, with code {status}{self._last_words()}."
        name = _name(-status)
        if name in _CRASHES:
            return f"The engine crashed ({name}): {_CRASHES[name]}"
        if name in ("SIGTERM", "SIGHUP", "SIGINT"):
            return f"Something ended the engine from outside ({name})."
        return f"The engine crashed in llama.cpp ({name}){self._last_words()}."

    def _last_words(self) -> str:
        """The last line that was printed, else the last complaint in llama.cpp's log, since the birth."""
        # What Python's fault handler adds tells where Python was, not what llama.cpp said.
        printed = self._since_birth(self._own).partition(_FAULT_HANDLER)[0]
        complaints = [line for line in self._since_birth(self._native).splitlines() if _TELLING.search(line)]
        lines = [line for line in (*complaints, *printed.splitlines()) if line.strip()]
        return f": {visible(lines[-1]).strip()[:_LONGEST_LINE].rstrip('.')}" if lines else ""

    def _since_birth(self, path: Path) -> str:
        try:
            with path.open("rb") as file:
                size = _size(path)
                # A log that is shorter now was begun anew.
                start = self._starts[path] if self._starts[path] <= size else 0
                file.seek(max(start, size - _LONGEST_TAIL))
                return file.read().decode("utf-8", errors="replace")
        except OSError:
            return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _processes_killed_for_memory() -> int:
    """How many processes the kernel has ended since its start because memory ran out; 0 where it doesn't say."""
    try:
        counters = Path("/proc/vmstat").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^oom_kill (\d+)$", counters, re.MULTILINE)
    return int(found[1]) if found else 0
