"""Taking a message and what follows it out of a tree, within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from specchat.chat.conversation import title_of
from specchat.chat.message import Role
from specchat.chat.store_rows import gone

_BELOW = (
    "WITH RECURSIVE below (id) AS (VALUES (?) UNION ALL SELECT node.id FROM below JOIN node ON node.parent = below.id)"
)


def remove_branch(connection: sqlite3.Connection, node_id: int) -> None:
    """Delete a message with everything below it; raises NotStored.

    Where the current branch went through it, that is now the newest beside it, else the one that ends before it. A
    title that was the beginning of a deleted question becomes that of the first one that is left.
    """
    found = connection.execute("SELECT chat_id, parent FROM node WHERE id = ?", (node_id,)).fetchone()
    if found is None:
        raise gone("message")
    chat_id, parent = found
    ids = [id for (id,) in connection.execute(f"{_BELOW} SELECT id FROM below", (node_id,))]
    leaf, title = connection.execute("SELECT leaf, title FROM chat WHERE id = ?", (chat_id,)).fetchone()
    titled = title in _titles(connection, ids)
    # One statement, since each message must have the one before it.
    connection.execute(f"{_BELOW} DELETE FROM node WHERE id IN (SELECT id FROM below)", (node_id,))
    if leaf in ids:
        connection.execute(
            "UPDATE chat SET leaf = ? WHERE id = ?", (_leaf_beside(connection, chat_id, parent), chat_id)
        )
    if titled:
        connection.execute("UPDATE chat SET title = ? WHERE id = ?", (_first_title(connection, chat_id), chat_id))
    # The index keeps deleted words until its parts are merged.
    connection.execute("INSERT INTO word (word) VALUES ('optimize')")


def leaf_below(connection: sqlite3.Connection, node_id: int) -> int:
    """The id of the newest message that has `node_id` on its way to the root."""
    # A message is always added after the one before it, so the newest of a branch is a leaf.
    newest: int = connection.execute(f"{_BELOW} SELECT max(id) FROM below", (node_id,)).fetchone()[0]
    return newest


def count_below(connection: sqlite3.Connection, node_id: int) -> int:
    """How many messages have `node_id` on their way to the root."""
    count: int = connection.execute(f"{_BELOW} SELECT count(*) FROM below", (node_id,)).fetchone()[0]
    return count - 1


def _leaf_beside(connection: sqlite3.Connection, chat_id: str, parent: int | None) -> int | None:
    beside = "SELECT max(id) FROM node WHERE chat_id = ? AND parent IS ?"
    (sibling,) = connection.execute(beside, (chat_id, parent)).fetchone()
    return parent if sibling is None else leaf_below(connection, sibling)


def _titles(connection: sqlite3.Connection, ids: Sequence[int]) -> set[str]:
    """The titles that the questions among these messages would give."""
    questions = "SELECT text FROM node WHERE id = ? AND role = ?"
    texts = (connection.execute(questions, (id, Role.USER.value)).fetchone() for id in ids)
    return {title_of(text[0]) for text in texts if text is not None}


def _first_title(connection: sqlite3.Connection, chat_id: str) -> str:
    first = "SELECT text FROM node WHERE chat_id = ? AND role = ? ORDER BY id LIMIT 1"
    found = connection.execute(first, (chat_id, Role.USER.value)).fetchone()
    return "" if found is None else title_of(found[0])
