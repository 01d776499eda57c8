"""One file over the network into a partial file that survives everything, hashed while it grows."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from specchat.catalogue.body import open_body
from specchat.catalogue.cache import writing
from specchat.catalogue.hub import Hub, RemoteContent
from specchat.catalogue.hub_errors import HubError, Problem

_HASH_STEP: Final = 4 << 20
_TELL_STEP: Final = 1 << 20
_TICK_S: Final = 0.1
_SLOWEST: Final = 1024
"""Bytes a second below which a connection counts as dead."""
_LONGEST_BODY: Final = 32 << 30
"""Bytes asked for at once: the hub's storage hosts refuse bodies beyond 50 GB."""
_PROGRESS: Final = 1 << 20
"""Bytes after which earlier failures are forgiven."""


def new_digest(remote: RemoteContent) -> hashlib._Hash:
    """The hash whose value must equal `remote.sha256`, or git's blob id where the hub reports only that."""
    if remote.sha256 is None and remote.git_id is not None:
        return hashlib.sha1(b"blob %d\0" % remote.size, usedforsecurity=False)
    return hashlib.sha256()


class FollowingHash(threading.Thread):
    """Hashes a growing file behind its writer, so that the content is read back as it lies in the file.

    A resumed file is thereby hashed from its start while the rest still arrives.
    """

    def __init__(self, path: Path, digest: hashlib._Hash) -> None:
        super().__init__(name=f"hash of {path.name}", daemon=True)
        self.done = 0
        """Bytes hashed so far."""
        self._path = path
        self._digest = digest
        self._written = 0
        self._whole = False
        self._stopped = False
        self._failure: OSError | None = None
        self._changed = threading.Condition()

    def wrote(self, total: int) -> None:
        """Tell that the first `total` bytes of the file are there."""
        with self._changed:
            self._written = total
            self._changed.notify()

    def result(self, tick: Callable[[], None]) -> str:
        """The digest of all that was written, in hexadecimal; `tick` is called ten times a second until it is known.

        Raises CacheNotWritable where the file can't be read back.
        """
        with self._changed:
            self._whole = True
            self._changed.notify()
        while self.is_alive():
            tick()
            self.join(_TICK_S)
        with writing(self._path):
            if self._failure is not None:
                raise self._failure
        return self._digest.hexdigest()

    def stop(self) -> None:
        """End the thread, finished or not."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self.join()

    def run(self) -> None:
        """Read what is written, hash it, wait for more."""
        buffer = memoryview(bytearray(_HASH_STEP))
        try:
            with self._path.open("rb", buffering=0) as file:
                while (available := self._await_more()) > 0:
                    count = file.readinto(buffer[: min(available, _HASH_STEP)])
                    if not count:
                        raise OSError(errno.EIO, "the file has shrunk", str(self._path))
                    self._digest.update(buffer[:count])
                    self.done += count
        except OSError as error:
            self._failure = error

    def _await_more(self) -> int:
        with self._changed:
            while self._written == self.done and not (self._whole or self._stopped):
                self._changed.wait()
            return 0 if self._stopped else self._written - self.done


def transfer(hub: Hub, remote: RemoteContent, partial: Path, report: Callable[[int, int, int], None]) -> str:
    """Fill `partial` with the bytes of `remote` that it lacks; returns the digest of the whole (see new_digest).

    `partial` may be missing, or hold the beginning of the content, as an earlier run left it. `report` gets the bytes
    held, moved over the network in this run, and hashed. Raises HubError, Cancelled, DiskFull and CacheNotWritable;
    what has arrived by then is kept.
    """
    with writing(partial):
        partial.touch()
        file = partial.open("r+b", buffering=0)
    with file:
        return _Filling(hub, remote, partial, file, report).run()


class _Filling:
    """One run of filling a partial file."""

    def __init__(
        self, hub: Hub, remote: RemoteContent, partial: Path, file: io.FileIO, report: Callable[[int, int, int], None]
    ) -> None:
        self._hub = hub
        self._remote = remote
        self._path = partial
        self._file = file
        self._report = report
        self._hash = FollowingHash(partial, new_digest(remote))
        # Only ever a beginning of the content is written, so all that is there counts.
        self._held = min(file.seek(0, io.SEEK_END), remote.size)
        self._moved = 0

    def run(self) -> str:
        with writing(self._path):
            if self._file.seek(0, io.SEEK_END) > self._held:
                self._file.truncate(self._held)
            self._file.seek(self._held)
        self._hash.wrote(self._held)
        self._hash.start()
        try:
            self._fill()
            self._hash.wrote(self._held)
            # A power failure must not leave the name of a checked content on blocks that were never written.
            with writing(self._path):
                os.fsync(self._file.fileno())
            return self._hash.result(self._tick)
        finally:
            self._hash.stop()

    def _tell(self) -> None:
        self._report(self._held, self._moved, self._hash.done)

    def _tick(self) -> None:
        self._hub.check_cancelled()
        self._tell()

    def _fill(self) -> None:
        forgiven, attempt = self._held, 0
        while self._held < self._remote.size:
            self._tick()
            try:
                self._stretch()
            except HubError as error:
                if self._held - forgiven >= _PROGRESS:
                    forgiven, attempt = self._held, 0
                attempt += 1
                self._remote = self._hub.recover(error, attempt, self._remote, lost=self._moved > 0)

    def _stretch(self) -> None:
        """Write what one answer brings; raises HubError where it ends before the file does."""
        size = self._remote.size
        end = min(size, self._held + _LONGEST_BODY)
        with open_body(self._hub, self._remote, self._held, end - 1 if end < size else None) as body:
            if body.skipped:
                self._hub.say(f"{body.host} can't continue in the middle; it sends the file from its start.")
            pace = _Pace(self._hub.patience.stall_s)
            for chunk, moved in body.chunks():
                self._moved += moved
                self._write(chunk[: end - self._held])
                if self._held == end:
                    return
                if pace.too_slow(moved):
                    raise _broken(f"{body.host} sends next to nothing", Problem.STALLED)
            raise _broken(f"{body.host} has ended the file early", Problem.CUT)

    def _write(self, chunk: memoryview) -> None:
        before = self._held
        with writing(self._path):
            while chunk:
                # A raw file may take less than it is given.
                count = self._file.write(chunk)
                self._held += count
                chunk = chunk[count:]
        if before // _TELL_STEP != self._held // _TELL_STEP:
            self._hash.wrote(self._held)
        self._tell()


def _broken(what: str, problem: Problem) -> HubError:
    return HubError(f"{what}. Try again; what has arrived is kept.", problem, again=True)


class _Pace:
    """Tells a connection that drips from one that flows."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._start = time.monotonic()
        self._bytes = 0

    def too_slow(self, count: int) -> bool:
        """Whether the last window of time, ending with these `count` bytes, brought next to nothing."""
        self._bytes += count
        elapsed = time.monotonic() - self._start
        if elapsed < self._window_s:
            return False
        slow = self._bytes < _SLOWEST * elapsed
        self._start, self._bytes = time.monotonic(), 0
        return slow
