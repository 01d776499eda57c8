"""A file appears whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specchat.llama.whole_file import written_whole


def test_a_file_is_there_once_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    with written_whole(path) as unfinished:
        unfinished.write_text("half")
        assert not path.exists()
        unfinished.write_text("whole")
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.json"
    path.write_text("before")

    def write() -> None:
        with written_whole(path) as unfinished:
            unfinished.write_text("half")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_appears_where_nothing_was_written(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), written_whole(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with written_whole(path) as first, written_whole(path) as second:
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first", "the last one to finish stays"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_others_may_read_it_as_they_may_what_else_the_user_writes(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    with written_whole(tmp_path / "a") as unfinished:
        unfinished.write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
