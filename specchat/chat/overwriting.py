"""Taking deleted text out of the file of the conversations and out of its log, while they are used."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

_PATIENCE_S: Final = 0.25
"""Nobody can write while another program's reading is waited for."""


def overwrite(path: Path) -> str:
    """Take out what is left of deleted text, if there is any; returns why that can't be done now. Raises sqlite3.Error.

    It has a connection of its own, so that the others can be read from meanwhile.
    """
    with contextlib.closing(_opened(path)) as connection:
        (newest,) = connection.execute("SELECT max(rowid) FROM leftover").fetchone()
        if newest is None:
            return ""
        _merge_words(connection)
        connection.execute("VACUUM")
        (hindered, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if hindered:
            return "another program is reading it"
        # What another program deleted meanwhile may be left still.
        connection.execute("DELETE FROM leftover WHERE rowid <= ?", (newest,))
        return ""


def _opened(path: Path) -> sqlite3.Connection:
    # Not made anew where it was moved away meanwhile.
    address = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(address, uri=True, timeout=_PATIENCE_S, isolation_level=None)
    connection.execute("PRAGMA secure_delete = ON")
    # VACUUM must not copy the text into the system's temporary directory.
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _merge_words(connection: sqlite3.Connection) -> None:
    """The index keeps deleted words until its parts are merged; one that is damaged is made anew."""
    try:
        connection.execute("INSERT INTO word (word) VALUES ('optimize')")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_CORRUPT_VTAB:
            raise
        connection.execute("INSERT INTO word (word) VALUES ('rebuild')")
