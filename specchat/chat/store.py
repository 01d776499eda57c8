"""Conversations on disk: messages as trees, saved as they are written.

One SQLite file with a write-ahead log: what a call has written survives a kill of the program, and several programs
may use it at once. Every method raises StoreError, whose message is a sentence for the user, where the file can't be
read or written, and its kind NotStored for a conversation or message that is not there.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import platformdirs

from specchat.chat import search as searching
from specchat.chat.conversation import Chat, Hit, Node, Span, Summary, title_of
from specchat.chat.message import Role
from specchat.chat.reading import Cut
from specchat.chat.store_branch import count_below, leaf_below, remove_branch, some, thread, thread_ids, versions
from specchat.chat.store_file import NotStored, StoreFile
from specchat.chat.store_rows import NODE, as_json, gone, node_of, storable

_PATIENCE: Final = 5.0
"""Seconds to wait for another program that is writing."""
_CHAT: Final = ", ".join(field.name for field in fields(Chat))
_NEWEST_FIRST: Final = "ORDER BY updated DESC, rowid DESC"


def store_path() -> Path:
    """Where the user's conversations lie."""
    return Path(platformdirs.user_data_path("specchat", appauthor=False)) / "chats.db"


class Store:
    """The conversations of one file; may be used from several threads, which then take turns.

    `patience`: seconds to wait for another program that is writing. `clock`: seconds since the epoch.
    """

    def __init__(self, path: Path, *, patience: float = _PATIENCE, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.notes: list[str] = []
        """Sentences for the user about the file."""
        self._clock = clock
        self._file = StoreFile(path, patience, self.notes, {"occurs": searching.occurs})

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Conversations

    def new_chat(self, *, model: str, system: str = "", title: str = "") -> Chat:
        """Begin a conversation; it is not listed before its first message, which names it where `title` is empty."""
        now = self._clock()
        chat = Chat(uuid.uuid4().hex, title_of(storable(title)), storable(model), storable(system), now, now)
        values = (chat.id, chat.title, chat.model, chat.system, now, now)
        self._file.write(lambda c: c.execute(f"INSERT INTO chat ({_CHAT}) VALUES (?, ?, ?, ?, ?, ?)", values))
        return chat

    def chat(self, chat_id: str) -> Chat:
        """The conversation of this id, or of the only id that begins so."""
        rows = self._read(
            f"SELECT {_CHAT} FROM chat WHERE substr(id, 1, ?) = ? LIMIT 2", (len(chat_id), storable(chat_id))
        )
        if len(rows) > 1:
            raise NotStored(f"Several conversations have an id that begins with {chat_id!r}. Write more of it.")
        if not rows or not chat_id:
            raise NotStored(f"There is no conversation {chat_id!r}. See them with: specchat chats ls")
        return Chat(*rows[0])

    def latest(self) -> Chat | None:
        """The conversation in which something was said last."""
        said = "EXISTS (SELECT 1 FROM node WHERE chat_id = chat.id)"
        rows = self._read(f"SELECT {_CHAT} FROM chat WHERE {said} {_NEWEST_FIRST} LIMIT 1", ())
        return Chat(*rows[0]) if rows else None

    def rename(self, chat_id: str, title: str) -> None:
        """Give it another title, of which the first line is kept."""
        self._change("UPDATE chat SET title = ? WHERE id = ?", (title_of(storable(title)), chat_id), "conversation")

    def set_system(self, chat_id: str, system: str) -> None:
        """Give it another system prompt, from its next answer on."""
        self._change("UPDATE chat SET system = ? WHERE id = ?", (storable(system), chat_id), "conversation")

    def delete(self, chat_id: str) -> None:
        """Delete a conversation; see `overwrite_deleted`, and `forgetting.forget` for what it left elsewhere."""

        def remove(connection: sqlite3.Connection) -> int:
            connection.execute("DELETE FROM node WHERE chat_id = ?", (chat_id,))
            return connection.execute("DELETE FROM chat WHERE id = ?", (chat_id,)).rowcount

        if not self._file.delete(remove):
            raise NotStored(f"There is no conversation {chat_id!r}. See them with: specchat chats ls")

    # Messages

    def add(self, chat_id: str, parent: int | None, role: Role, text: str, *, model: str = "") -> Node:
        """Add a message behind `parent`, or a first one; the current branch ends with it.

        An answer is added empty and then written with `write`. `model` names who writes it.
        """

        def insert(connection: sqlite3.Connection) -> int:
            now, words = self._clock(), storable(text)
            known = connection.execute("SELECT title FROM chat WHERE id = ?", (chat_id,)).fetchone()
            whose = "SELECT 1 FROM node WHERE id = ? AND chat_id = ?"
            if known is None or (parent is not None and not connection.execute(whose, (parent, chat_id)).fetchone()):
                raise gone("conversation" if known is None else "message")
            node = connection.execute(
                "INSERT INTO node (chat_id, parent, role, text, model, created) VALUES (?, ?, ?, ?, ?, ?)",
                (chat_id, parent, role.value, words, storable(model), now),
            ).lastrowid
            title = known[0] or (title_of(words) if role is Role.USER else "")
            connection.execute(
                "UPDATE chat SET leaf = ?, updated = ?, title = ?, model = coalesce(nullif(?, ''), model) WHERE id = ?",
                (node, now, title, storable(model), chat_id),
            )
            assert node is not None
            return node

        return self.node(self._file.write(insert))

    def write(
        self,
        node_id: int,
        *,
        text: str,
        reasoning: str = "",
        finish_reason: str | None = None,
        statistics: Mapping[str, Any] | None = None,
        spans: Sequence[Span] | None = None,
    ) -> None:
        """Replace what a message says; for a streaming answer at least once a second.

        Statistics and spans stay as they were where None is given. A number in them that is not finite becomes null.
        """
        words = (storable(text), storable(reasoning), finish_reason, as_json(statistics), as_json(spans))

        def update(connection: sqlite3.Connection) -> int:
            now = self._clock()
            changed = connection.execute(
                "UPDATE node SET text = ?, reasoning = ?, finish_reason = ?, statistics = coalesce(?, statistics),"
                " spans = coalesce(?, spans) WHERE id = ?",
                (*words, node_id),
            ).rowcount
            whose = "(SELECT chat_id FROM node WHERE id = ?)"
            connection.execute(f"UPDATE chat SET updated = ? WHERE id = {whose}", (now, node_id))
            return changed

        if not self._file.write(update):
            raise gone("message")

    def node(self, node_id: int) -> Node:
        """The message of this id."""
        rows = self._read(f"SELECT {NODE} FROM node WHERE id = ?", (node_id,))
        if not rows:
            raise gone("message")
        return node_of(rows[0])

    def nodes(self, chat_id: str) -> list[Node]:
        """Every message of every branch, in the order in which they were added."""
        return [
            node_of(row) for row in self._read(f"SELECT {NODE} FROM node WHERE chat_id = ? ORDER BY id", (chat_id,))
        ]

    # Branches

    def thread(self, chat_id: str, last: int | None = None) -> list[Node]:
        """The current branch from its first message to its leaf, or the `last` messages of it."""
        return self._file.read(lambda connection: thread(connection, chat_id, last))

    def thread_ids(self, chat_id: str) -> list[int]:
        """The ids of the current branch from its first message to its leaf; of a long one much sooner than `thread`."""
        return self._file.read(lambda connection: thread_ids(connection, chat_id))

    def some(self, node_ids: Sequence[int]) -> list[Node]:
        """The messages of these ids, in the order of the ids."""
        return self._file.read(lambda connection: some(connection, node_ids))

    def versions(self, node_ids: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Which of how many alternatives each of a few hundred messages is, by its id."""
        return self._file.read(lambda connection: versions(connection, node_ids))

    def siblings(self, node_id: int) -> list[Node]:
        """The message and its alternatives, the oldest first."""
        rows = self._read(
            f"SELECT {NODE} FROM node JOIN node AS this ON this.id = ? AND node.chat_id = this.chat_id"
            " AND node.parent IS this.parent ORDER BY node.id",
            (node_id,),
        )
        if not rows:
            raise gone("message")
        return [node_of(row) for row in rows]

    def walk(self, node_id: int, step: int) -> Node | None:
        """Go to the alternative `step` places further: the current branch becomes the newest through it.

        Returns that alternative; None, and nothing changes, where there is none.
        """
        siblings = self.siblings(node_id)
        place = next(place for place, node in enumerate(siblings) if node.id == node_id) + step
        if not 0 <= place < len(siblings):
            return None
        self.select(siblings[place].chat_id, self.leaf_below(siblings[place].id))
        return siblings[place]

    def leaf_below(self, node_id: int) -> int:
        """The id of the newest message that has `node_id` on its way to the root."""
        return self._file.read(lambda connection: leaf_below(connection, node_id))

    def select(self, chat_id: str, leaf_id: int) -> None:
        """End the current branch with this message; those behind it stay in the tree."""
        self._change(
            "UPDATE chat SET leaf = ? WHERE id = ? AND EXISTS (SELECT 1 FROM node WHERE id = ? AND chat_id = chat.id)",
            (leaf_id, chat_id, leaf_id),
            "message",
        )

    def overwrite_deleted(self) -> None:
        """Take what was deleted out of the file and its log too: a fifth of a second with 10,000 messages.

        That need not be done at each deletion: closing the store does it where it was not tried since, and where that
        was not reached, the next time it is closed. Others read and write meanwhile, but for that fifth of a second.
        Where it can't be done, `notes` says so.
        """
        self._file.overwrite_deleted()

    def count_below(self, node_id: int) -> int:
        """How many messages have `node_id` on their way to the root, in every branch."""
        return self._file.read(lambda connection: count_below(connection, node_id))

    def remove(self, node_id: int) -> None:
        """Delete a message with what follows it; other branches stay. See `remove_branch` and `overwrite_deleted`."""
        self._file.delete(lambda connection: remove_branch(connection, node_id))

    # What the model reads

    def cuts(self, chat_id: str) -> dict[int, Cut]:
        """Where the model begins to read branches of a conversation, by the first message that it reads."""
        rows = self._read(
            "SELECT node_id, summary, summarised_to, missed FROM cut JOIN node ON node.id = node_id WHERE chat_id = ?"
            " ORDER BY node_id",
            (chat_id,),
        )
        return {row[0]: Cut(*row) for row in rows}

    def cut(self, node_id: int, summary: str = "", summarised_to: int | None = None, missed: int = 0) -> None:
        """Let the model read every branch through this message from it on, after the summary; see `Cut`."""
        self.node(node_id)
        values = (node_id, storable(summary), summarised_to, missed)
        columns = "node_id, summary, summarised_to, missed"
        self._change(f"INSERT OR REPLACE INTO cut ({columns}) VALUES (?, ?, ?, ?)", values, "message")

    def uncut(self, node_ids: Sequence[int]) -> None:
        """Let the model read what comes before these messages again."""
        self._file.write(lambda c: c.executemany("DELETE FROM cut WHERE node_id = ?", [(id,) for id in node_ids]))

    # Lists

    def chats(self, limit: int, *, query: str = "") -> list[Summary]:
        """At most `limit` conversations with messages, the latest first; with `query` those that have its words.

        Each word must be in the title, or all in one message.
        """
        where = "TRUE"
        parameters: list[str] = []
        query = storable(query)
        if query.strip():
            found, parameters = searching.condition(searching.wanted(query))
            titled = " AND ".join(["occurs(title, ?)"] * len(query.split()))
            where = f"({titled} OR id IN (SELECT chat_id FROM node WHERE {found}))"
            parameters = [*(word.casefold() for word in query.split()), *parameters]
        rows = self._read(
            "SELECT id, title, model, updated, (SELECT count(*) FROM node WHERE chat_id = chat.id) AS messages"
            f" FROM chat WHERE messages AND {where} {_NEWEST_FIRST} LIMIT ?",
            (*parameters, limit),
        )
        return [Summary(*row) for row in rows]

    def search(self, words: str, limit: int) -> list[Hit]:
        """At most `limit` messages of any branch that have all the words, the newest first."""
        return self._file.read(lambda connection: searching.search(connection, storable(words), limit))

    def _read(self, statement: str, parameters: Sequence[Any]) -> list[Any]:
        return self._file.read(lambda connection: connection.execute(statement, parameters).fetchall())

    def _change(self, statement: str, parameters: Sequence[Any], what: str) -> None:
        if not self._file.write(lambda connection: connection.execute(statement, parameters).rowcount):
            raise gone(what)
