"""Token ids of past conversations, kept on disk so that drafters can repeat what was said before.

One SQLite file in a directory of its own: its transactions survive a killed process and keep two processes apart.
It holds what people wrote: mode 0600, and deleted text is overwritten (`secure_delete`, then VACUUM).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Result = TypeVar("Result")

_FORMAT = 1
_PATIENCE = 5.0
"""Seconds to wait for another process that is writing."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS conversation (
    vocabulary TEXT, id TEXT, revision INTEGER, length INTEGER, digest BLOB, PRIMARY KEY (vocabulary, id)
);
CREATE TABLE IF NOT EXISTS piece (
    vocabulary TEXT, conversation TEXT, start INTEGER, tokens BLOB,
    PRIMARY KEY (vocabulary, conversation, start)
);
"""


class Revision(NamedTuple):
    """Which state of a conversation is stored: two states of one conversation never compare equal."""

    number: int
    digest: bytes


class PastText:
    """The past conversations of one vocabulary, at most `limit_tokens` together; the oldest are evicted.

    Nothing is opened before it is needed. No method raises for a file that is damaged or can't be written: what
    happened is said once in `notes`, in sentences, and drafting goes on with what there is.
    """

    def __init__(self, directory: Path, vocabulary_digest: str, limit_tokens: int = 2_000_000) -> None:
        self.notes: list[str] = []
        self._directory = directory
        self._path = directory / "past.sqlite"
        self._vocabulary = vocabulary_digest
        self._limit = limit_tokens
        self._connection: sqlite3.Connection | None = None

    def add(self, conversation_id: str, ids: Sequence[int]) -> None:
        """Store `ids` as all of the conversation; only what is new is written where it just grew."""
        kept = np.asarray(ids[-self._limit :], "<i4").tobytes()
        self._attempt(lambda connection: self._add(connection, conversation_id, kept), None)

    def _add(self, connection: sqlite3.Connection, conversation: str, kept: bytes) -> None:
        key = (self._vocabulary, conversation)
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute(
            "SELECT length, digest FROM conversation WHERE vocabulary = ? AND id = ?", key
        ).fetchone()
        start = 4 * row[0] if row else 0
        if row and (start > len(kept) or _digest(kept[:start]) != row[1]):
            connection.execute("DELETE FROM piece WHERE vocabulary = ? AND conversation = ?", key)
            start = 0
        new = kept[start:]
        if new:
            piece = (*key, start // 4, new)
            connection.execute("INSERT INTO piece VALUES (?, ?, ?, ?)", piece)
        connection.execute(
            "INSERT OR REPLACE INTO conversation SELECT ?, ?, coalesce(max(revision), 0) + 1, ?, ? FROM conversation",
            (*key, len(kept) // 4, _digest(kept)),
        )
        self._evict(connection)

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Delete the conversations added longest ago until the rest fits."""
        rows = connection.execute(
            "SELECT id, length FROM conversation WHERE vocabulary = ? ORDER BY revision DESC", (self._vocabulary,)
        )
        total = 0
        for conversation, length in rows.fetchall():
            total += length
            if total > self._limit:
                _delete(connection, conversation, self._vocabulary)

    def forget(self, conversation_id: str) -> bool:
        """Purge all that the conversation contributed, under every vocabulary; False where that failed."""

        def purge(connection: sqlite3.Connection) -> bool:
            connection.execute("BEGIN IMMEDIATE")
            _delete(connection, conversation_id)
            connection.commit()
            # Deleted content was overwritten; copies that SQLite made while moving cells go with the old pages.
            connection.execute("VACUUM")
            return True

        return self._attempt(purge, False)

    def revisions(self) -> dict[str, Revision]:
        """The conversations stored and their present state, the one added longest ago first."""

        def listed(connection: sqlite3.Connection) -> dict[str, Revision]:
            rows = connection.execute(
                "SELECT id, revision, digest FROM conversation WHERE vocabulary = ? ORDER BY revision",
                (self._vocabulary,),
            )
            return {conversation: Revision(number, digest) for conversation, number, digest in rows}

        return self._attempt(listed, {})

    def read(self, conversation_ids: Iterable[str]) -> dict[str, NDArray[np.int32]]:
        """The ids [n] of each conversation that is still stored and whole; a damaged one is dropped."""
        wanted = list(conversation_ids)

        def whole(connection: sqlite3.Connection) -> dict[str, NDArray[np.int32]]:
            read = {}
            for conversation in wanted:
                key = (self._vocabulary, conversation)
                row = connection.execute(
                    "SELECT digest FROM conversation WHERE vocabulary = ? AND id = ?", key
                ).fetchone()
                pieces = connection.execute(
                    "SELECT tokens FROM piece WHERE vocabulary = ? AND conversation = ? ORDER BY start", key
                )
                tokens = b"".join(tokens for (tokens,) in pieces)
                if row and _digest(tokens) == row[0]:
                    read[conversation] = np.frombuffer(tokens, "<i4").astype(np.int32)
                elif row:
                    _delete(connection, conversation, self._vocabulary)
                    self._note(f"Part of the past text in {self._path} was damaged; it has been dropped.")
            return read

        return self._attempt(whole, {})

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            with contextlib.suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _attempt(self, work: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        """Do `work` in a transaction; `otherwise` after a note where it can't be done."""
        for rebuilt in (False, True):
            try:
                if self._connection is None:
                    self._connection = self._open()
                with self._connection:
                    return work(self._connection)
            except sqlite3.Error as error:
                if _kind(error) in _DAMAGED and not rebuilt and self._discard():
                    continue
                self._note(self._unusable(error))
                return otherwise
            except OSError as error:
                self._note(
                    f"Past text is not kept: {self._directory} can't be written ({error.strerror}). "
                    "Check its mode and free space."
                )
                self._connection = _prepared(sqlite3.connect(":memory:", check_same_thread=False))
        return otherwise

    def _open(self) -> sqlite3.Connection:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # SQLite gives its journal the mode of the file.
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
            self._path.chmod(0o600)
        except OSError:
            # What is there can still be read.
            if not self._path.exists():
                raise
        connection = sqlite3.connect(self._path, timeout=_PATIENCE, check_same_thread=False)
        try:
            return _prepared(connection)
        except sqlite3.Error:
            connection.close()
            raise

    def _discard(self) -> bool:
        """Delete the damaged file; what it held is lost. Whether it could be deleted."""
        self.close()
        try:
            for name in ("past.sqlite-journal", "past.sqlite"):
                (self._directory / name).unlink(missing_ok=True)
        except OSError:
            return False
        self._note(f"The store of past text {self._path} was damaged; it has been started anew.")
        return True

    def _unusable(self, error: sqlite3.Error) -> str:
        if _kind(error) == sqlite3.SQLITE_BUSY:
            return f"Another specchat is busy with {self._path}: past text was left out this time."
        return f"Past text can't be kept in {self._path} or read from it: {error}. Check its mode and the free space."

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    connection.execute("PRAGMA secure_delete = ON")
    # VACUUM must not copy the text into the system's temporary directory.
    connection.execute("PRAGMA temp_store = MEMORY")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == 0:
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
    elif version != _FORMAT:
        raise sqlite3.NotSupportedError(f"it was written by another version of specchat: format {version}")
    return connection


def _delete(connection: sqlite3.Connection, conversation: str, vocabulary: str | None = None) -> None:
    where = (conversation, vocabulary, vocabulary)
    connection.execute("DELETE FROM piece WHERE conversation = ? AND (vocabulary = ? OR ? IS NULL)", where)
    connection.execute("DELETE FROM conversation WHERE id = ? AND (vocabulary = ? OR ? IS NULL)", where)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _kind(error: sqlite3.Error) -> int:
    # The low byte of SQLite's code is the kind of error; the rest says more about it.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
