"""A database of any earlier program is taken over whole; one of a later program is left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from specchat.chat import migrations
from specchat.chat.message import Role
from specchat.chat.migrations import APPLICATION_ID, MIGRATIONS
from specchat.chat.store import Store
from specchat.chat.store_file import StoreError

# As the first version wrote it: this text is never changed.
FIRST_VERSION = f"""
CREATE TABLE chat (id TEXT PRIMARY KEY, title TEXT NOT NULL, model TEXT NOT NULL, system TEXT NOT NULL,
    created REAL NOT NULL, updated REAL NOT NULL, leaf INTEGER);
CREATE INDEX chat_by_time ON chat (updated);
CREATE TABLE node (id INTEGER PRIMARY KEY AUTOINCREMENT,
    chat_id TEXT NOT NULL REFERENCES chat (id) ON DELETE CASCADE, parent INTEGER REFERENCES node (id),
    role TEXT NOT NULL CHECK (role IN ('system', 'user', 'assistant')),
    text TEXT NOT NULL, reasoning TEXT NOT NULL DEFAULT '', model TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL, finish_reason TEXT, statistics TEXT, spans TEXT);
CREATE INDEX node_by_chat ON node (chat_id);
CREATE INDEX node_by_parent ON node (parent);
INSERT INTO chat VALUES ('c0ffee', 'An old question', 'demo', 'Be brief.', 1.0, 2.0, 2);
INSERT INTO node VALUES (1, 'c0ffee', NULL, 'user', 'An old question', '', '', 1.0, NULL, NULL, NULL);
INSERT INTO node VALUES (2, 'c0ffee', 1, 'assistant', 'An old answer', 'Hm.', 'demo', 2.0, 'stop',
    '{{"alpha": 0.5}}', '[["answer", "An old answer", "plain"]]');
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = 1;
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "chats.db"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST_VERSION)
    connection.close()
    return path


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    found: int = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found


def shape(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {(name, " ".join(sql.split())) for name, sql in rows}


def test_what_an_older_program_kept_is_all_there_and_can_be_searched(old: Path) -> None:
    with Store(old) as store:
        assert store.notes == []
        question, answer = store.thread("c0ffee")
        assert (question.role, question.text, question.parent) == (Role.USER, "An old question", None)
        assert (answer.text, answer.reasoning, answer.finish_reason) == ("An old answer", "Hm.", "stop")
        assert answer.statistics == {"alpha": 0.5}
        assert answer.spans == (("answer", "An old answer", "plain"),)
        assert [hit.node_id for hit in store.search("old", 5)] == [2, 1]
        new = store.add("c0ffee", answer.id, Role.USER, "A new question")
        assert [hit.node_id for hit in store.search("new", 5)] == [new.id]
        store.delete("c0ffee")
        assert store.search("old", 5) == []
    assert version(old) == len(MIGRATIONS)


def test_an_old_database_ends_in_the_same_shape_as_a_new_one(old: Path, tmp_path: Path) -> None:
    Store(old).close()
    Store(tmp_path / "new.db").close()
    shapes = []
    for path in (old, tmp_path / "new.db"):
        connection = sqlite3.connect(path)
        shapes.append(shape(connection))
        connection.close()
    assert shapes[0] == shapes[1]


def test_a_database_of_a_later_program_is_refused_and_left_as_it_is(old: Path) -> None:
    connection = sqlite3.connect(old)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match=r"written by a later specchat \(format 99\)\. Update specchat"):
        Store(old)
    assert version(old) == 99
    assert [file.name for file in old.parent.iterdir() if "damaged" in file.name] == []


def test_a_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE chat (mine TEXT)")
    connection.close()
    before = shape(sqlite3.connect(path))
    with pytest.raises(StoreError, match="a database of another program; it was left as it is"):
        Store(path)
    assert shape(sqlite3.connect(path)) == before


def test_a_step_that_fails_leaves_the_database_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_done(connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE half (done)")
        connection.execute("DELETE FROM node")
        raise sqlite3.OperationalError("the light went out")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, half_done))
        with pytest.raises(StoreError, match="the light went out"):
            Store(old)
    assert version(old) == 1
    with Store(old) as store:
        assert len(store.thread("c0ffee")) == 2


def test_a_kill_while_it_is_taken_over_costs_nothing(old: Path) -> None:
    program = (
        "import os, sqlite3, sys\n"
        "from specchat.chat import migrations\n"
        "steps = migrations.MIGRATIONS + (lambda connection: os.kill(os.getpid(), 9),)\n"
        "migrations.MIGRATIONS = steps\n"
        "migrations.migrate(sqlite3.connect(sys.argv[1], isolation_level=None))\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(old)], check=False).returncode == -9
    assert version(old) == 1
    with Store(old) as store:
        assert len(store.thread("c0ffee")) == 2
        assert len(store.search("old", 5)) == 2


def test_several_programs_take_it_over_at_once(old: Path) -> None:
    command = [sys.executable, "-m", "tests.chat.store_process", "talk", str(old), "name", "1"]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for child in children:
        out, err = child.communicate("\n", timeout=30)
        assert (child.returncode, err, out.split()[0]) == (0, "", "ready")
    with Store(old) as store:
        assert len(store.chats(9)) == 5
        assert len(store.search("old", 5)) == 2
