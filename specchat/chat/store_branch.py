"""Branches of a tree: reading one, and taking a message and what follows it out, within a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from specchat.chat.conversation import Node, title_of
from specchat.chat.message import Role
from specchat.chat.store_rows import NODE, gone, node_of

_BELOW = (
    "WITH RECURSIVE below (id) AS (VALUES (?) UNION ALL SELECT node.id FROM below JOIN node ON node.parent = below.id)"
)

_LINE = (
    "WITH RECURSIVE line (id, depth) AS (SELECT leaf, 0 FROM chat WHERE id = ? AND leaf IS NOT NULL UNION ALL"
    " SELECT node.parent, depth + 1 FROM line JOIN node ON node.id = line.id WHERE node.parent IS NOT NULL LIMIT ?)"
)
_ALL = -1
_AT_ONCE = 500
"""Values in one statement: older SQLite takes 999."""


def thread(connection: sqlite3.Connection, chat_id: str, last: int | None) -> list[Node]:
    """The current branch of a conversation, or the `last` messages of it."""
    statement = f"{_LINE} SELECT {NODE} FROM line JOIN node ON node.id = line.id ORDER BY depth DESC"
    return [node_of(row) for row in connection.execute(statement, (chat_id, _ALL if last is None else last))]


def thread_ids(connection: sqlite3.Connection, chat_id: str) -> list[int]:
    """The ids of the current branch of a conversation, from its first message on."""
    return [id for (id,) in connection.execute(f"{_LINE} SELECT id FROM line ORDER BY depth DESC", (chat_id, _ALL))]


def some(connection: sqlite3.Connection, ids: Sequence[int]) -> list[Node]:
    """The messages of these ids, in their order; raises NotStored."""
    found: dict[int, Node] = {}
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(part))
        rows = connection.execute(f"SELECT {NODE} FROM node WHERE id IN ({marks})", tuple(part))
        found.update({node.id: node for node in map(node_of, rows)})
    if len(found) < len(set(ids)):
        raise gone("message")
    return [found[id] for id in ids]


def versions(connection: sqlite3.Connection, ids: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Which of how many alternatives each of these messages is; at most as many as one statement takes values."""
    beside = "SELECT count(*) FROM node AS other WHERE other.parent IS this.parent AND other.chat_id = this.chat_id"
    rows = connection.execute(
        f"SELECT id, ({beside} AND other.id <= this.id), ({beside}) FROM node AS this"
        f" WHERE id IN ({', '.join('?' * len(ids))})",
        tuple(ids),
    )
    return {id: (which, of) for id, which, of in rows}


def remove_branch(connection: sqlite3.Connection, node_id: int) -> bool:
    """Delete a message with everything below it; returns whether there were words in it. Raises NotStored.

    Where the current branch went through it, that is now the newest beside it, else the one that ends before it. A
    title that was the beginning of a deleted question becomes that of the first one that is left.
    """
    found = connection.execute("SELECT chat_id, parent FROM node WHERE id = ?", (node_id,)).fetchone()
    if found is None:
        raise gone("message")
    chat_id, parent = found
    ids = [id for (id,) in connection.execute(f"{_BELOW} SELECT id FROM below", (node_id,))]
    leaf, title = connection.execute("SELECT leaf, title FROM chat WHERE id = ?", (chat_id,)).fetchone()
    worded = (
        f"{_BELOW} SELECT EXISTS (SELECT 1 FROM node WHERE id IN (SELECT id FROM below) AND text || reasoning != '')"
    )
    had_words = bool(connection.execute(worded, (node_id,)).fetchone()[0])
    titled = title in _titles(connection, ids)
    # One statement, since each message must have the one before it.
    connection.execute(f"{_BELOW} DELETE FROM node WHERE id IN (SELECT id FROM below)", (node_id,))
    if leaf in ids:
        connection.execute(
            "UPDATE chat SET leaf = ? WHERE id = ?", (_leaf_beside(connection, chat_id, parent), chat_id)
        )
    if titled:
        connection.execute("UPDATE chat SET title = ? WHERE id = ?", (_first_title(connection, chat_id), chat_id))
    return had_words


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
