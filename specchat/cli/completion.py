"""What the shell completes where it knows no better: ids of models, methods' names apart, chats and datastores.

Each is read from the file that lists it, without llama.cpp and numpy: nobody waits for a tab. Whatever goes wrong, a
shell that completes says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Final

Found = list[tuple[str, str]]
"""Values, and a word about each for shells that show one."""

_CHATS: Final = 50
_WORDS: Final = 48


def _quietly(values: Callable[[], Found]) -> Callable[[str], Found]:
    """Those of `values` that begin with what is written; none where they can't be read."""

    def complete(incomplete: str) -> Found:
        try:
            return [(value, about) for value, about in values() if value.startswith(incomplete)]
        except Exception:
            # A catalogue that is not valid TOML is told by the commands that need it.
            return []

    return complete


def _models() -> Found:
    from specchat.catalogue.entries import Catalogue

    return [(id, entry.name) for id, entry in sorted(Catalogue().entries.items())]


def _drafts() -> Found:
    return [("none", "no draft model"), *_models()]


def _chats() -> Found:
    import sqlite3

    from specchat.chat.store import store_path

    path = store_path()
    # Not through the store: it sets a damaged file aside and brings an old one up to date, which a tab must not.
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.2)) as connection:
        rows = connection.execute("SELECT id, title FROM chat ORDER BY updated DESC LIMIT ?", (_CHATS,)).fetchall()
    return [(id, " ".join(title.split())[:_WORDS]) for id, title in rows]


def _datastores() -> Found:
    from specchat.retrieval.shelf import names

    return [(name, "datastore") for name in names()]


def _classes() -> Found:
    from specchat.bench.prompts import BENCH_CLASSES

    return [(kind, "prompts") for kind in BENCH_CLASSES]


models: Final = _quietly(_models)
drafts: Final = _quietly(_drafts)
chats: Final = _quietly(_chats)
datastores: Final = _quietly(_datastores)
classes: Final = _quietly(_classes)
