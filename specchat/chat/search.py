"""Finding messages by their words.

Whatever is typed is looked for as it stands: there is no query language and so nothing that could be wrong in one.
Every word must occur, in any order; it may be the beginning of a longer one, and neither case nor accents matter.
"""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from typing import Final, NamedTuple

from specchat.chat.conversation import Hit, one_line
from specchat.chat.message import Role

_AROUND: Final = 60
"""Characters of a snippet on each side of what was found."""
_BARED: Final = 20_000
"""How far into a message a word with other accents is looked for."""
# The index takes a run of these scripts, which put no space between words, for one word.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Wanted(NamedTuple):
    """A search: an expression for the index ("" for none), and what must occur letter by letter as well."""

    match: str
    literal: tuple[str, ...]


def wanted(words: str) -> Wanted:
    """What to look for, of what a user typed."""
    indexed, literal = [], []
    for word in words.replace("\0", " ").split():
        spaced = not _UNSPACED.search(word)
        whole = spaced and all(map(_is_indexed, word))
        if spaced and any(map(_is_indexed, word)):
            indexed.append('"' + word.replace('"', '""') + '"*')
        if not whole:
            # Signs are not in the index: it finds c for c++.
            literal.append(word.casefold())
    return Wanted(" ".join(indexed), tuple(literal))


def _is_indexed(character: str) -> bool:
    """Whether SQLite surely takes it for part of a word: letters and digits that are as old as Unicode 3.2."""
    return unicodedata.ucd_3_2_0.category(character)[0] in "LN"


def occurs(text: str, word: str) -> bool:
    """Whether `word`, casefolded, occurs in `text`; known to SQL under this name."""
    return word in text.casefold()


def condition(search: Wanted) -> tuple[str, list[str]]:
    """A condition on `node`, and its parameters."""
    parts = ["node.id IN (SELECT rowid FROM word WHERE word MATCH ?)"] if search.match else []
    # What has no capitals is left to SQLite, which is faster.
    parts += [
        "instr(node.text, ?)" if word.upper() == word.lower() else "occurs(node.text, ?)" for word in search.literal
    ]
    return " AND ".join(parts) or "FALSE", [*([search.match] if search.match else []), *search.literal]


def search(connection: sqlite3.Connection, words: str, limit: int) -> list[Hit]:
    """At most `limit` messages with all the words, the newest first."""
    where, parameters = condition(wanted(words))
    rows = connection.execute(
        "SELECT node.chat_id, node.id, chat.title, node.role, node.text, node.created FROM node"
        f" JOIN chat ON chat.id = node.chat_id WHERE {where} ORDER BY node.id DESC LIMIT ?",
        (*parameters, limit),
    )
    return [
        Hit(chat, node, title, Role(role), snippet(text, words), when) for chat, node, title, role, text, when in rows
    ]


def snippet(text: str, words: str) -> str:
    """One line of `text` around the first of the words that occurs in it, else its beginning."""
    at = _first(text, words.split())
    if at is None:
        # Written with other accents than the message.
        at = _first(_bare(text[:_BARED]), _bare(words).split()) or 0
    start, stop = max(0, at - _AROUND), at + _AROUND
    return ("…" if start else "") + one_line(text[start:stop]) + ("…" if stop < len(text) else "")


def _first(text: str, words: list[str]) -> int | None:
    found = [match.start() for word in words if (match := re.search(re.escape(word), text, re.IGNORECASE))]
    return min(found, default=None)


def _bare(text: str) -> str:
    """The text letter for letter without accents."""
    return "".join(unicodedata.normalize("NFD", character)[0] for character in text)
