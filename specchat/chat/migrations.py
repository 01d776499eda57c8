"""What the database of conversations looks like, as the steps that led there.

Each step takes the tables from one version to the next and is never changed afterwards. The version, the number of
steps taken, is `PRAGMA user_version`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Final

APPLICATION_ID: Final = 0x53504348
"""Marks a SQLite file as ours ("SPCH")."""


class Newer(Exception):
    """The database was written by a later program; `version` is its version."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


class Foreign(Exception):
    """A SQLite database of some other program."""


def _conversations(connection: sqlite3.Connection) -> None:
    connection.execute(
        "CREATE TABLE chat (id TEXT PRIMARY KEY, title TEXT NOT NULL, model TEXT NOT NULL, system TEXT NOT NULL,"
        " created REAL NOT NULL, updated REAL NOT NULL, leaf INTEGER)"
    )
    connection.execute("CREATE INDEX chat_by_time ON chat (updated)")
    # An id is never given twice: what still holds that of a deleted message must not write into another one.
    connection.execute(
        "CREATE TABLE node (id INTEGER PRIMARY KEY AUTOINCREMENT,"
        " chat_id TEXT NOT NULL REFERENCES chat (id) ON DELETE CASCADE,"
        " parent INTEGER REFERENCES node (id),"
        " role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),"
        " text TEXT NOT NULL, reasoning TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',"
        " created REAL NOT NULL, finish_reason TEXT, statistics TEXT, spans TEXT)"
    )
    connection.execute("CREATE INDEX node_by_chat ON node (chat_id)")
    connection.execute("CREATE INDEX node_by_parent ON node (parent)")


def _words(connection: sqlite3.Connection) -> None:
    """An index of the words of messages, kept right by triggers."""
    connection.execute(
        "CREATE VIRTUAL TABLE word USING fts5 (text, content = 'node', content_rowid = 'id',"
        " tokenize = 'unicode61 remove_diacritics 2')"
    )
    added = "INSERT INTO word (rowid, text) VALUES (new.id, new.text);"
    removed = "INSERT INTO word (word, rowid, text) VALUES ('delete', old.id, old.text);"
    connection.execute(f"CREATE TRIGGER node_added AFTER INSERT ON node BEGIN {added} END")
    connection.execute(f"CREATE TRIGGER node_removed AFTER DELETE ON node BEGIN {removed} END")
    connection.execute(
        "CREATE TRIGGER node_written AFTER UPDATE OF text ON node WHEN old.text IS NOT new.text"
        f" BEGIN {removed} {added} END"
    )
    connection.execute("INSERT INTO word (word) VALUES ('rebuild')")


def _cuts(connection: sqlite3.Connection) -> None:
    """From which messages on the model reads, where the context was full."""
    connection.execute(
        "CREATE TABLE cut (node_id INTEGER PRIMARY KEY REFERENCES node (id) ON DELETE CASCADE, summary TEXT NOT NULL)"
    )


def _ends_of_summaries(connection: sqlite3.Connection) -> None:
    """Where more was left out after a summary was written, it says nothing about that."""
    connection.execute("ALTER TABLE cut ADD COLUMN summarised_to INTEGER")


def _leftovers(connection: sqlite3.Connection) -> None:
    """Has a row while text that was deleted may still be left in the file."""
    # An id is never given twice: who overwrites takes out only the rows that were there before.
    connection.execute("CREATE TABLE leftover (id INTEGER PRIMARY KEY AUTOINCREMENT, since REAL NOT NULL)")


def _beginnings_of_summaries(connection: sqlite3.Connection) -> None:
    """Where messages had been left out before a summary was written, it says nothing about those."""
    connection.execute("ALTER TABLE cut ADD COLUMN missed INTEGER NOT NULL DEFAULT 0")


MIGRATIONS: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (
    _conversations, _words, _cuts, _ends_of_summaries, _leftovers, _beginnings_of_summaries,
)  # fmt: skip


def migrate(connection: sqlite3.Connection) -> None:
    """Take the database to the present version, wholly or not at all; raises Newer, Foreign and sqlite3.Error."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again, now that no other process can be at it.
        version = _version(connection)
        for step in MIGRATIONS[version:]:
            step(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and owner != APPLICATION_ID:
        raise Foreign
    if version > len(MIGRATIONS):
        raise Newer(version)
    return version
