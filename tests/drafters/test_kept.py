"""What is kept between starts is whole, and belongs to the content it was made for."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from specchat.drafters.kept import cache_directory, content_digest, write_json


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_changed_file_has_another_digest(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"one")
    first = content_digest(path)
    assert first == hashlib.sha256(b"one").hexdigest()[:32]
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert content_digest(path) == hashlib.sha256(b"two").hexdigest()[:32]


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"gigabytes")
    first = content_digest(path)
    monkeypatch.setattr(hashlib, "file_digest", None)
    assert content_digest(path) == first


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"state": 1}', b"\xff"])
def test_a_damaged_memory_is_not_believed(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"one")
    content_digest(path)
    for remembered in (cache_directory() / "digests").iterdir():
        remembered.write_bytes(damage)
    assert content_digest(path) == hashlib.sha256(b"one").hexdigest()[:32]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "kept" / "data.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert path.read_text() == '{"a": 1}'
    assert [entry.name for entry in path.parent.iterdir()] == ["data.json"]
