"""Writing a datastore so that it appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import numpy as np
from numpy.typing import NDArray

from specchat.retrieval.datastore import MAGIC, Description
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.suffix_array import first_rows, suffix_array

if sys.platform != "win32":
    import fcntl

SEGMENT_TOKENS: Final = 1 << 25
"""Tokens a segment by default: sorting one takes about 1 GB, and fewer segments are searched faster."""
LARGEST_SEGMENT: Final = 1 << 26
_UNFINISHED: Final = ".building"
_ATTEMPTS: Final = 5


class Writer:
    """Takes documents, sorts them segment by segment into a hidden file beside `path`, and moves it there at the end.

    A lock that dies with its process marks the hidden file as being worked on: what a killed build left is taken
    over or deleted by the next one. Leaving the `with` block without `finish` deletes it.

    Raises DatastoreError where another build of the same name runs, OSError where the disk won't.
    """

    def __init__(self, path: Path, vocabulary_size: int, segment_tokens: int = SEGMENT_TOKENS) -> None:
        if not 1 <= segment_tokens <= LARGEST_SEGMENT:
            raise ValueError(f"A segment has 1 to {LARGEST_SEGMENT:,} tokens, not {segment_tokens:,}.")
        self._path = path
        self._size = vocabulary_size
        self._buffer = np.empty(segment_tokens, np.int32)
        self._held = 0
        self._segments: list[int] = []
        self.sorting: Callable[[], None] = lambda: None
        """Called before each sort, which takes a while."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._unfinished = path.with_name(f".{path.name}{_UNFINISHED}")
        self._file = _claim(self._unfinished)
        _sweep(path.parent)
        self._file.write(MAGIC)

    @property
    def tokens(self) -> int:
        """How many tokens came so far, the marks between documents included."""
        return sum(self._segments) + self._held

    def add(self, tokens: Sequence[int]) -> None:
        """Append to the current document; raises ValueError for what is no token of the vocabulary."""
        values = np.asarray(tokens, np.int32)
        if len(values) and not 0 <= int(values.min()) <= int(values.max()) < self._size:
            raise ValueError("A token is outside the vocabulary.")
        self._append(values)

    def end_document(self) -> None:
        """Part what follows from what came: no draft runs from one text into another."""
        self._append(np.array([self._size], np.int32))

    def _append(self, values: NDArray[np.int32]) -> None:
        while len(values):
            n = min(len(values), len(self._buffer) - self._held)
            self._buffer[self._held : self._held + n] = values[:n]
            self._held += n
            values = values[n:]
            if self._held == len(self._buffer):
                self._write_segment()

    def _write_segment(self) -> None:
        tokens = self._buffer[: self._held]
        self.sorting()
        for part in (tokens, _interruptible(lambda: suffix_array(tokens)), first_rows(tokens, self._size + 1)):
            part.tofile(self._file)
        self._segments.append(self._held)
        self._held = 0

    def finish(self, *, name: str, model: str, vocabulary_digest: str, files: int) -> None:
        """Make the datastore appear, in the place of an older one."""
        if self._held:
            self._write_segment()
        description = Description(name, model, vocabulary_digest, self._size, tuple(self._segments), files)
        self._file.write(description.to_bytes())
        self._file.flush()
        os.fsync(self._file.fileno())
        if sys.platform == "win32":
            self._file.close()
        # Still locked: until it has its name nobody else may take it for a left-over.
        self._unfinished.replace(self._path)
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            with contextlib.suppress(OSError):
                if sys.platform == "win32":
                    self._file.close()
                self._unfinished.unlink(missing_ok=True)
            # Closing writes what is buffered; on a full disk it fails once more.
            with contextlib.suppress(OSError):
                self._file.close()


def _interruptible(work: Callable[[], NDArray[np.int32]]) -> NDArray[np.int32]:
    """The result of `work`, which spends seconds in C; Ctrl-C need not wait for it to come back."""
    outcome: Future[NDArray[np.int32]] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="suffix array", daemon=True).start()
    return outcome.result()


def _claim(path: Path) -> BinaryIO:
    """The hidden file, locked and empty; raises DatastoreError while another process has it."""
    for _ in range(_ATTEMPTS):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        if _lock(descriptor) and _is(path, descriptor):
            os.ftruncate(descriptor, 0)
            return os.fdopen(descriptor, "r+b")
        os.close(descriptor)
        # Held by another's sweep for an instant, or by a build that runs.
        time.sleep(0.05)
    name = path.name.removeprefix(".").removesuffix(_UNFINISHED)
    raise DatastoreError(f"Another build of {name.removesuffix('.rest')!r} is running. Wait for it, or stop it.")


def _lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; without such locks (Windows) an open file can't be deleted anyway."""
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def _is(path: Path, descriptor: int) -> bool:
    """Whether `path` still names the open file: who held the lock before may have moved or deleted it."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:
        return False


def _sweep(directory: Path) -> None:
    """Delete what killed builds left."""
    for path in directory.glob(f".*{_UNFINISHED}"):
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR)
            try:
                if _lock(descriptor) and _is(path, descriptor):
                    path.unlink()
            finally:
                os.close(descriptor)
