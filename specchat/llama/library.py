"""Loading llama.cpp and owning its log.

Nothing here is imported before a model is wanted: `import llama_cpp` costs a few hundred milliseconds and loads the
GPU driver.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections import deque
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import platformdirs

from specchat.llama.errors import LlamaError

_LOG_LIMIT_BYTES: Final = 1 << 20
_SPIN_COUNT: Final = "1000"
"""How often a waiting compute thread looks before it sleeps (libgomp's default is 300,000).

Threads meet about a thousand times a pass. Beside a busy process a long wait burns the very time slices that the late
thread needs: with one busy loop on two cores 10,000 gave 3 tok/s, 1,000 gave 19 and 100 gave 40. On a quiet machine
1,000 cost about 8 % and 100 about 20 %.
"""
_LEVEL_WARN: Final = 3
_LEVEL_ERROR: Final = 4
_LEVEL_CONTINUE: Final = 5


class NativeLog:
    """Receives llama.cpp's log: all of it goes to a file, the latest complaints are kept for error sentences.

    llama.cpp logs shapes, sizes and file names, never prompts or answers.
    """

    def __init__(self) -> None:
        self._complaints: deque[str] = deque(maxlen=8)
        self._level = 0
        self._file = self._open()

    @staticmethod
    def path() -> Path:
        """Where the log lies."""
        return Path(platformdirs.user_log_path("specchat", appauthor=False)) / "llama.log"

    def _open(self) -> int | None:
        path = self.path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
                path.unlink()
            return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            # A home that can't be written costs the log, not the answer.
            return None

    def write(self, level: int, text: bytes) -> None:
        """Take one message; llama.cpp ends most with a newline and continues others at level 5."""
        if level != _LEVEL_CONTINUE:
            self._level = level
        if self._level in (_LEVEL_WARN, _LEVEL_ERROR):
            line = text.decode("utf-8", errors="replace").strip()
            if line:
                self._complaints.append(line)
        if self._file is not None:
            try:
                os.write(self._file, text)
            except OSError:
                self._file = None

    def forget(self) -> None:
        """Drop remembered complaints, before a call whose own are wanted."""
        self._complaints.clear()

    def last_complaint(self) -> str:
        """The most telling recent warning or error, without its function prefix, or an empty string."""
        causes = [line for line in self._complaints if "failed to load model" not in line]
        line = (causes or list(self._complaints) or [""])[-1]
        return line.split(": ", 1)[-1] if line.split(":", 1)[0].replace("_", "").isalnum() else line


class Library:
    """The loaded llama.cpp: its bindings (`api`) and its log."""

    def __init__(self) -> None:
        if "OMP_WAIT_POLICY" not in os.environ:
            # Read once, when the OpenMP runtime is loaded together with llama.cpp.
            os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
        try:
            from llama_cpp import llama_cpp as api
        except (ImportError, OSError, RuntimeError) as error:
            # The binding raises RuntimeError where a library it needs is missing, such as the CUDA runtime.
            raise LlamaError(f"llama.cpp can't be loaded ({error}). Run scripts/setup again.") from None

        self.api: Any = api
        self.log = NativeLog()
        # C keeps the pointer: losing the last reference to the callback would be a crash at the next message.
        self._log_callback = api.llama_log_callback(self._on_log)
        api.llama_log_set(self._log_callback, ctypes.c_void_p(0))
        api.llama_backend_init()
        # The binding returns a typed pointer that would be cast and unpacked again for every step.
        self.address_of_logits: Callable[[Any], int | None] = api._lib["llama_get_logits"]
        self.address_of_logits.argtypes = [api.llama_context_p_ctypes]
        self.address_of_logits.restype = ctypes.c_void_p
        atexit.register(self._silence)

    def _on_log(self, level: int, text: bytes, _user_data: Any) -> None:
        self.log.write(level, text)

    def _silence(self) -> None:
        # Destructors of the native library still log while Python's callback is being torn down.
        self._quiet = self.api.llama_log_callback(lambda _level, _text, _data: None)
        self.api.llama_log_set(self._quiet, ctypes.c_void_p(0))

    @property
    def offloads(self) -> bool:
        """Whether this build can put layers on a GPU, and one is there."""
        return bool(self.api.llama_supports_gpu_offload())


@cache
def library() -> Library:
    """The one loaded library of this process."""
    return Library()
