"""Past text survives kills and damage, stays private, and is gone when it is to be gone."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.drafters.past_text import PastText

VOCABULARY = "digest"


def stored(directory: Path, vocabulary: str = VOCABULARY) -> dict[str, list[int]]:
    past = PastText(directory, vocabulary)
    read = {name: ids.tolist() for name, ids in past.read(past.revisions()).items()}
    past.close()
    return read


def add(directory: Path, conversation: str, ids: list[int], limit: int = 1000) -> None:
    past = PastText(directory, VOCABULARY, limit)
    past.add(conversation, ids)
    assert past.notes == []
    past.close()


def on_disk(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


def test_what_was_added_is_there_the_next_time(tmp_path: Path) -> None:
    add(tmp_path, "a", [1, 2, 3])
    add(tmp_path, "b", [2**30, 0])
    assert stored(tmp_path) == {"a": [1, 2, 3], "b": [2**30, 0]}


@pytest.mark.parametrize("ids", [[1, 2, 3, 4], [1, 2, 3], [1, 2], [1, 9, 3, 4], []])
def test_adding_again_replaces(tmp_path: Path, ids: list[int]) -> None:
    add(tmp_path, "a", [1, 2, 3])
    add(tmp_path, "a", ids)
    assert stored(tmp_path).get("a", []) == ids


def test_a_conversation_that_grew_costs_only_what_is_new(tmp_path: Path) -> None:
    old = list(range(5000, 8000))
    add(tmp_path, "a", old, 9000)
    before = on_disk(tmp_path)
    at = before.find(np.asarray(old[-600:], "<i4").tobytes()[:400])
    assert at > 0
    add(tmp_path, "a", [*old, 7], 9000)
    # The page that holds the old text was not written again elsewhere.
    assert on_disk(tmp_path)[at : at + 400] == before[at : at + 400]
    assert stored(tmp_path)["a"] == [*old, 7]


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    PastText(tmp_path / "suffix", VOCABULARY).close()
    assert not (tmp_path / "suffix").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    os.umask(before := os.umask(0))
    try:
        os.umask(0)
        add(tmp_path / "suffix", "a", [1, 2, 3])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "suffix").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "suffix").iterdir()] == [0o600]


def test_other_vocabularies_are_not_mixed_in(tmp_path: Path) -> None:
    add(tmp_path, "a", [1, 2, 3])
    assert stored(tmp_path, "other") == {}


def test_a_forgotten_conversation_leaves_no_trace_in_the_file(tmp_path: Path) -> None:
    secret = list(range(70_000, 70_400))
    names = "secret-conversation"
    for vocabulary in (VOCABULARY, "other"):
        past = PastText(tmp_path, vocabulary)
        for other in range(20):
            past.add(f"c{other}", list(range(other, other + 300)))
            past.add(names, secret[: 20 * (other + 1)])
        past.close()
    needles = [np.asarray(secret[i : i + 2], "<i4").tobytes() for i in range(0, 400, 2)]
    assert all(needle in on_disk(tmp_path) for needle in needles)
    past = PastText(tmp_path, VOCABULARY)
    assert past.forget(names)
    past.close()
    left = on_disk(tmp_path)
    assert not any(needle in left for needle in needles)
    assert names.encode() not in left
    assert len(stored(tmp_path)) == len(stored(tmp_path, "other")) == 20


def test_the_conversation_added_longest_ago_is_evicted_first(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "a", "d"):
        add(tmp_path, name, [1] * 30, limit=100)
    assert sorted(stored(tmp_path)) == ["a", "c", "d"]


def test_of_a_conversation_above_the_bound_the_end_is_kept(tmp_path: Path) -> None:
    add(tmp_path, "a", list(range(30)), limit=10)
    assert stored(tmp_path) == {"a": list(range(20, 30))}


def test_a_file_cut_anywhere_is_rebuilt_and_said_once(tmp_path: Path) -> None:
    for name in "abc":
        add(tmp_path / "whole", name, list(range(900)), limit=9000)
    whole = on_disk(tmp_path / "whole")
    assert len(whole) > 10_000
    intact = stored(tmp_path / "whole")
    # SQLite takes a file of one byte for an empty one.
    cuts = [*range(2, 200, 17), *range(200, len(whole), 997), *range(4096, len(whole), 4096)]
    for cut in cuts:
        (tmp_path / "past.sqlite").write_bytes(whole[:cut])
        past = PastText(tmp_path, VOCABULARY)
        read = past.read(past.revisions())
        past.add("new", [1, 2, 3])
        past.forget("a")
        after = past.read(past.revisions())
        past.close()
        assert after["new"].tolist() == [1, 2, 3]
        assert all(ids.tolist() == intact[name] for name, ids in read.items())
        assert len(past.notes) == 1
        assert "damaged" in past.notes[0]


def test_flipped_bits_are_noticed_and_never_proposed(tmp_path: Path) -> None:
    for name in "abc":
        add(tmp_path / "whole", name, list(range(300)))
    whole = on_disk(tmp_path / "whole")
    intact = stored(tmp_path / "whole")
    for at in range(0, len(whole), 307):
        (tmp_path / "past.sqlite").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        past = PastText(tmp_path, VOCABULARY)
        for name, ids in past.read(past.revisions()).items():
            assert ids.tolist() == intact.get(name, ids.tolist())
        past.add("new", [1, 2, 3])
        past.close()


WRITER = """
import sys, time
from pathlib import Path
from specchat.drafters.past_text import PastText
past = PastText(Path(sys.argv[1]), "digest")
print("ready", flush=True)
i = 0
while True:
    i += 1
    past.add(f"c{i % 7}", list(range(i, i + i % 3000)))
    if i % 5 == 0:
        past.forget(f"c{i % 3}")
"""


def test_killed_at_any_moment_it_goes_on_with_whole_conversations(tmp_path: Path) -> None:
    for wait in (0.02, 0.05, 0.11):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        process.kill()
        assert process.wait() == (-signal.SIGKILL if os.name != "nt" else 1)
        process.stdout.close()
        past = PastText(tmp_path, VOCABULARY)
        for ids in past.read(past.revisions()).values():
            assert ids.tolist() == list(range(int(ids[0]), int(ids[0]) + len(ids)))
        past.add("mine", [1, 2])
        assert past.notes == []
        past.close()
        assert stored(tmp_path)["mine"] == [1, 2]


def test_two_processes_write_side_by_side(tmp_path: Path) -> None:
    writer = WRITER.replace("i += 1", "i += 1; time.sleep(0.01)")
    process = subprocess.Popen([sys.executable, "-c", writer, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    for i in range(8):
        add(tmp_path, "mine", list(range(i)))
    process.kill()
    process.wait()
    process.stdout.close()
    assert stored(tmp_path)["mine"] == list(range(7))


def test_where_nothing_can_be_stored_it_says_so_and_works_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    past = PastText(tmp_path / "file" / "suffix", VOCABULARY)
    past.add("a", [1, 2, 3])
    past.add("b", [1, 2, 3])
    assert len(past.notes) == 1
    assert "can't be written" in past.notes[0]
    # For as long as the program runs, what was said can still be repeated.
    assert sorted(past.read(past.revisions())) == ["a", "b"]


@pytest.fixture
def nobodys_directory() -> Iterator[Path]:
    """A directory for a user without rights; the superuser becomes one."""
    directory = Path(tempfile.mkdtemp())
    was_root = os.geteuid() == 0
    try:
        add(directory, "a", [1, 2, 3])
        directory.chmod(0o555)
        (directory / "past.sqlite").chmod(0o444)
        if was_root:
            os.seteuid(65534)
        yield directory
    finally:
        if was_root:
            os.seteuid(0)
        directory.chmod(0o755)
        shutil.rmtree(directory)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_read_only_store_is_still_read(nobodys_directory: Path) -> None:
    past = PastText(nobodys_directory, VOCABULARY)
    past.add("b", [4, 5, 6])
    assert not past.forget("a")
    assert {name: ids.tolist() for name, ids in past.read(past.revisions()).items()} == {"a": [1, 2, 3]}
    assert len(past.notes) == 1
    assert "readonly" in past.notes[0]
    past.close()


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    add(tmp_path, "a", [1, 2, 3])
    with sqlite3.connect(tmp_path / "past.sqlite") as connection:
        connection.execute("PRAGMA user_version = 9")
    before = on_disk(tmp_path)
    past = PastText(tmp_path, VOCABULARY)
    past.add("b", [1])
    assert past.revisions() == {}
    assert len(past.notes) == 1
    assert "another version" in past.notes[0]
    assert on_disk(tmp_path) == before
