"""A datastore that is damaged, of another vocabulary or badly named is a sentence, never a crash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from specchat.retrieval import shelf
from specchat.retrieval.datastore import Datastore, read_description
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.lookup import continuation
from tests.retrieval.letters import DIGEST, store_of, write_store

TEXT = "the quick brown fox jumps over the lazy dog. " * 30


@pytest.fixture
def whole(tmp_path: Path) -> bytes:
    return write_store(tmp_path / "whole.rest", [list(TEXT.encode()), list(b"more")]).read_bytes()


def test_it_says_what_it_holds(tmp_path: Path) -> None:
    with store_of(tmp_path / "a.rest", "abc", "defg", segment_tokens=4) as store:
        about = store.description
        assert (about.name, about.model, about.vocabulary_size) == ("a", "Letters", 256)
        assert (about.tokens, about.segments, about.files) == (9, (4, 4, 1), 2)
        assert bytes(store.segments[0].tokens.tolist()[:3]) == b"abc"


def test_another_vocabulary_is_refused_by_name(tmp_path: Path) -> None:
    path = write_store(tmp_path / "a.rest", [[1, 2, 3]])
    with pytest.raises(DatastoreError, match=r"'a' holds tokens of Letters .*256.* and TinyLlama has another.*build"):
        Datastore(path, "something else", "TinyLlama")


def test_a_file_cut_anywhere_is_damaged(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "cut.rest"
    for length in (0, 1, 15, 16, 40, 500, len(whole) // 2, len(whole) - 200, len(whole) - 16, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DatastoreError, match=r"cut\.rest is damaged: .*build it again"):
            Datastore(path)


def test_a_file_of_the_wrong_size_is_damaged(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "wrong.rest"
    for content in (whole + b"x", whole + whole, whole[:100] + whole[104:], whole[:100] + b"1234" + whole[100:]):
        path.write_bytes(content)
        with pytest.raises(DatastoreError, match="damaged"):
            Datastore(path).close()


def test_whatever_bytes_are_wrong_it_is_refused_or_drafts_tokens(tmp_path: Path, whole: bytes) -> None:
    chance = random.Random(1)
    path = tmp_path / "flipped.rest"
    refused = 0
    for _ in range(300):
        content = bytearray(whole)
        start = chance.randrange(len(content))
        length = chance.choice([1, 4, 64, 4096])
        content[start : start + length] = chance.randbytes(len(content[start : start + length]))
        path.write_bytes(content)
        try:
            with Datastore(path, DIGEST) as store:
                for query in (b"the quick", b"brown ", b"ez", b"dog. the"):
                    assert all(0 <= token < 256 for token in continuation([store], list(query), 9).ids)
        except DatastoreError:
            refused += 1
    assert 0 < refused < 300


@pytest.mark.parametrize(
    "description",
    [b"", b"[]", b"{}", b"null", b"[" * 5000, b'{"segments": [-1]}', b"\xff", b'{"segments": 3, "files": "x"}'],
)
def test_a_description_that_makes_no_sense_is_damage(tmp_path: Path, description: bytes) -> None:
    magic = b"specchat rest 1\n"
    path = tmp_path / "odd.rest"
    path.write_bytes(magic + description + len(description).to_bytes(8, "little") + magic)
    with pytest.raises(DatastoreError, match="damaged"):
        read_description(path)


def test_no_file_and_no_permission_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="There is no datastore"):
        Datastore(tmp_path / "none.rest")
    (tmp_path / "dir.rest").mkdir()
    with pytest.raises(DatastoreError, match="can't be read"):
        Datastore(tmp_path / "dir.rest")


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a\\b", "/etc/x", ".x", "-x", "a b", "a\n", "x" * 65, "ä"]
)
def test_a_name_can_not_lead_anywhere(name: str) -> None:
    for use in (shelf.path_of, shelf.existing, shelf.remove):
        with pytest.raises(DatastoreError, match="can't be the name"):
            use(name)


def test_rm_deletes_it_and_who_has_it_open_keeps_it() -> None:
    path = shelf.path_of("old")
    with store_of(path, "hello world") as store:
        assert shelf.names() == ["old"]
        shelf.remove("old")
        assert shelf.names() == []
        assert bytes(continuation([store], list(b"hello "), 2).ids) == b"wo"
    with pytest.raises(DatastoreError, match="There is no datastore 'old'"):
        shelf.remove("old")


def test_a_damaged_store_can_be_removed_and_is_no_hidden_one() -> None:
    path = write_store(shelf.path_of("bad"), [[1]])
    path.write_bytes(b"nonsense")
    path.with_name(".hidden.rest").write_bytes(b"")
    path.with_name("other.txt").write_bytes(b"")
    assert shelf.names() == ["bad"]
    shelf.remove("bad")
    assert shelf.names() == []
