"""The file of the conversations: how it is opened, and what can be wrong with it, as sentences.

It holds what people wrote: mode 0600, and what is deleted is overwritten.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

from specchat.chat.migrations import Foreign, Newer, migrate
from specchat.chat.overwriting import overwrite

if sys.platform != "win32":
    import fcntl

Result = TypeVar("Result")

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_COMPANIONS: Final = ("", "-wal", "-shm", "-journal")


class StoreError(Exception):
    """Conversations can't be read or written; the message is a sentence for the user."""


class StoreFull(StoreError):
    """There is no room for what was to be written."""


class NotStored(StoreError):
    """There is no such conversation or message, or no longer."""


def _kind(error: sqlite3.Error) -> int:
    """What sort of error it is: the low byte of SQLite's code; the rest says more about it."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def sentence_of(error: sqlite3.Error, path: Path) -> StoreError:
    """The error as one for the user."""
    if _kind(error) in _BUSY:
        return StoreError(f"Another program is busy with the conversations in {path}. Close it, or try again.")
    if _kind(error) == sqlite3.SQLITE_FULL:
        return StoreFull(f"There is no room left to keep conversations in {path}. Free some disk space and try again.")
    if _kind(error) in _DAMAGED:
        return StoreError(
            f"Part of {path}, where conversations are kept, is damaged ({error}). Export those you need "
            "(specchat chats export), then move the file away: a new one is begun."
        )
    return StoreError(
        f"Conversations can't be kept in {path} or read from it: {error}. Check its mode and the free disk space."
    )


class StoreFile:
    """An open database of the present version; threads take turns with it. Raises StoreError, as its methods do.

    A file that can't be read is set aside under another name, and `notes` says so. `patience` is how many seconds to
    wait for another program. `functions` of a text and a word are known to SQL by their names.
    """

    def __init__(
        self, path: Path, patience: float, notes: list[str], functions: Mapping[str, Callable[[str, str], bool]]
    ) -> None:
        self._path, self._notes = path, notes
        self._turn, self._overwriting = threading.RLock(), threading.Lock()
        self._untried = True
        """Deleted text may be left in the file, and since then it was not tried to overwrite it."""
        self._connection = _open_or_set_aside(path, patience, notes)
        for name, function in functions.items():
            self._connection.create_function(name, 2, function, deterministic=True)

    def close(self) -> None:
        """Overwrite what was deleted, where that was not tried yet, and close the file."""
        with self._overwriting:
            untried = self._untried
        if untried:
            self.overwrite_deleted()
        with self._turn, contextlib.suppress(sqlite3.Error):
            self._connection.close()

    def write(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do `work` in a transaction: all of it or, where it raises, nothing."""

        def transaction(connection: sqlite3.Connection) -> Result:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
            return result

        return self.read(transaction)

    def read(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do `work`; an index of words that turns out damaged is made anew for it."""
        with self._turn:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                code = getattr(error, "sqlite_errorcode", 0)
                # After another program's VACUUM tables may be missed once that are there.
                moved = code == sqlite3.SQLITE_SCHEMA or str(error).startswith("no such table")
                if code != sqlite3.SQLITE_CORRUPT_VTAB and not moved:
                    raise sentence_of(error, self._path) from None
            try:
                if not moved:
                    self._connection.execute("INSERT INTO word (word) VALUES ('rebuild')")
                return work(self._connection)
            except sqlite3.Error as error:
                raise sentence_of(error, self._path) from None

    def delete(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """Do `work` in a transaction; where it returns that it deleted text, the file is to be cleaned of it."""

        def deletion(connection: sqlite3.Connection) -> Result:
            result = work(connection)
            if result:
                connection.execute("INSERT INTO leftover (since) VALUES (?)", (time.time(),))
            return result

        result = self.write(deletion)
        # Only now: an overwriting that is under way does not see it before.
        self._untried = self._untried or bool(result)
        return result

    def overwrite_deleted(self) -> None:
        """Take out of the file and its log what is left there of deleted text, if there is any."""
        with self._overwriting:
            # What is deleted from now on is for the next time.
            self._untried = False
            try:
                why = overwrite(self._path)
            except sqlite3.Error as error:
                why = str(error)
        if not why:
            return
        self._notes.append(
            f"It is deleted, but parts of its text may be left in {self._path} until specchat is used again: {why}."
        )


def _open_or_set_aside(path: Path, patience: float, notes: list[str]) -> sqlite3.Connection:
    _create(path)
    try:
        return _opened(path, patience)
    except sqlite3.Error as error:
        if _kind(error) not in _DAMAGED:
            raise sentence_of(error, path) from None
    with _alone_in(path.parent):
        # Another program may have set it aside a moment ago.
        try:
            return _opened(path, patience)
        except sqlite3.Error as error:
            if _kind(error) not in _DAMAGED:
                raise sentence_of(error, path) from None
        notes.append(_set_aside(path))
        _create(path)
        try:
            return _opened(path, patience)
        except sqlite3.Error as error:
            raise sentence_of(error, path) from None


def _create(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the files beside it the same mode.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(
            f"Conversations can't be kept in {path}: {error.strerror}. Check the mode of the directory."
        ) from None
    with contextlib.suppress(OSError):
        path.chmod(0o600)


def _opened(path: Path, patience: float) -> sqlite3.Connection:
    # Transactions are begun and ended by hand.
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")
        # VACUUM must not copy the text into the system's temporary directory.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA journal_mode = WAL")
        # With a write-ahead log this survives any kill; a loss of power may take the last moments, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        migrate(connection)
    except Newer as error:
        connection.close()
        raise StoreError(
            f"The conversations in {path} were written by a later specchat (format {error.version}). Update specchat."
        ) from None
    except Foreign:
        connection.close()
        raise StoreError(
            f"{path} is a database of another program; it was left as it is. Move it away to keep conversations there."
        ) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _set_aside(path: Path) -> str:
    """Give the file and what belongs to it another name; returns a sentence about that."""
    name = f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}"
    while path.with_name(name).exists():
        name += "+"
    try:
        for companion in _COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + companion).rename(path.with_name(name + companion))
    except OSError as error:
        raise StoreError(
            f"{path}, where conversations are kept, is damaged and could not be renamed: {error.strerror}. "
            "Move it away: a new one is begun."
        ) from None
    return (
        f"The conversations in {path} could not be read: the file is damaged. It is now called {name}, and a new one "
        f"was begun. `sqlite3 {name} .recover` may still find text in it."
    )


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """No other program sets a file of this directory aside meanwhile."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
