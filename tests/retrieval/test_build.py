"""A datastore is built from whatever lies under the paths, and appears whole or not at all."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from specchat.llama.vocab_only import vocabulary_of
from specchat.retrieval import shelf
from specchat.retrieval.build import Built, Progress, build, default_store, open_stores
from specchat.retrieval.corpus import Corpus, Skipped, pieces
from specchat.retrieval.datastore import Datastore
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.lookup import continuation
from specchat.retrieval.writer import Writer
from tests.retrieval.letters import DIGEST, Letters, write_store


def make(name: str, *paths: Path, **options: Any) -> Built:
    return build(name, paths, Letters(), vocabulary_digest=DIGEST, model="Letters", **options)


def stored(name: str) -> list[bytes]:
    """The documents of a datastore, in order."""
    with Datastore(shelf.path_of(name), DIGEST) as store:
        ids = [token for segment in store.segments for token in segment.tokens.tolist()]
    assert ids[-1] == 256
    marks = [-1, *(at for at, token in enumerate(ids) if token == 256)]
    return [bytes(ids[start + 1 : end]) for start, end in pairwise(marks)]


def on_the_shelf() -> list[str]:
    return sorted(path.name for path in shelf.directory().iterdir()) if shelf.directory().exists() else []


def test_directories_are_walked_and_documents_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "b" / "c" / "d.py").write_text("print('ä')")
    (tmp_path / "b" / ".git").mkdir()
    (tmp_path / "b" / ".git" / "config").write_text("hidden")
    built = make("mine", tmp_path)
    assert stored("mine") == [b"first", "print('ä')".encode()]
    assert built.summary == "18 tokens of 2 files."
    assert on_the_shelf() == ["mine.rest"]


def test_what_is_no_text_is_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("good")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "latin1.txt").write_bytes(b"caf\xe9 au lait")
    (tmp_path / "cut.txt").write_bytes("ä".encode()[:1])
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "twice").symlink_to(tmp_path / "good.txt")
    os.mkfifo(tmp_path / "pipe")
    built = make("mine", tmp_path)
    assert stored("mine") == [b"good"]
    assert built.summary == (
        "5 tokens of 1 file; skipped 9 files (1 binary, 1 empty, 2 not UTF-8, 1 not a regular file, "
        "2 reached twice (links), 2 unreadable)."
    )


def test_a_file_that_may_not_be_read_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    for path in (secret, tmp_path / "open"):
        path.write_text(path.name)
    opens = Path.open

    def refusing(self: Path, *arguments: Any, **options: Any) -> Any:
        # Permissions would not stop a test that runs as root.
        if self == secret:
            raise PermissionError(13, "Permission denied")
        return opens(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    assert make("mine", tmp_path).skipped == {Skipped.UNREADABLE: 1}
    assert stored("mine") == [b"open"]


def test_nothing_usable_is_one_sentence_and_no_store(tmp_path: Path) -> None:
    with pytest.raises(DatastoreError, match="there are no files"):
        make("mine", tmp_path)
    (tmp_path / "a").write_bytes(b"\0")
    (tmp_path / "b").write_bytes(b"")
    with pytest.raises(DatastoreError, match=r"Nothing to build.*skipped 2 files \(1 binary, 1 empty\)"):
        make("mine", tmp_path)
    with pytest.raises(DatastoreError, match=r"no file or directory .*none"):
        make("mine", tmp_path / "none")
    assert on_the_shelf() == []


def test_large_files_stream_through_whole(tmp_path: Path) -> None:
    lines = "".join(f"line {i} of a long file, with an ä\n" for i in range(20_000))
    one_line = "x€" * 300_000
    (tmp_path / "lines").write_text(lines)
    (tmp_path / "one").write_text(one_line)
    built = make("mine", tmp_path, segment_tokens=300_000)
    assert stored("mine") == [lines.encode(), one_line.encode()]
    assert built.tokens == len(lines.encode()) + len(one_line.encode()) + 2


def test_text_is_cut_at_line_ends_where_there_are_some() -> None:
    text = "word " * 300 + "\n" + "y" * 20_000 + " z" * 9000
    parts = list(pieces(text))
    assert "".join(parts) == text
    assert max(map(len, parts)) <= 8192
    assert parts[0].endswith("\n")
    assert parts[-1].startswith(" z")
    assert list(pieces("")) == []


def test_a_taken_name_is_replaced_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    make("mine", tmp_path)
    (tmp_path / "a").write_text("new")
    with pytest.raises(DatastoreError, match="already"):
        make("mine", tmp_path)
    assert stored("mine") == [b"old"]
    make("mine", tmp_path, replace=True)
    assert stored("mine") == [b"new"]


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make("mine", tmp_path, progress=interrupt)
    assert on_the_shelf() == []


_INTERRUPTED = """
import ctypes, os, signal, sys, threading
from pathlib import Path
from specchat.retrieval import writer
from specchat.retrieval.build import build
from tests.retrieval.letters import DIGEST, Letters

writer.suffix_array = lambda _: ctypes.CDLL(None).sleep(60)

def sorting(at):
    if at.sorting:
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()

build("mine", [Path(sys.argv[1])], Letters(), vocabulary_digest=DIGEST, model="Letters", progress=sorting)
"""


def test_an_interrupt_does_not_wait_for_the_sort(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    command = [sys.executable, "-c", _INTERRUPTED, str(tmp_path)]
    done = subprocess.run(command, check=False, capture_output=True, timeout=30)
    assert b"KeyboardInterrupt" in done.stderr
    assert on_the_shelf() == []


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("text")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        make("mine", tmp_path)
    assert on_the_shelf() == []


_KILLED = """
import os, signal, sys
from pathlib import Path
from specchat.retrieval import writer
from specchat.retrieval.build import build
from tests.retrieval.letters import DIGEST, Letters

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

where, source = sys.argv[1:]
def progress(at):
    if where == "reading" and at.tokens > 50 or where == "sorting" and at.sorting and at.tokens > 150:
        die()
if where == "writing":
    writer.first_rows = die
if where == "finishing":
    os.fsync = die
if where == "naming":
    Path.replace = die
small = {"segment_tokens": 100, "progress": progress}
build("mine", [Path(source)], Letters(), vocabulary_digest=DIGEST, model="Letters", **small)
"""


@pytest.mark.parametrize("where", ["reading", "sorting", "writing", "finishing", "naming", "nowhere"])
def test_a_build_killed_anywhere_leaves_no_store_and_the_next_one_cleans_up(tmp_path: Path, where: str) -> None:
    texts = [f"text number {i}, some forty letters long or so" for i in range(8)]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}").write_text(text)
    done = subprocess.run([sys.executable, "-c", _KILLED, where, str(tmp_path)], check=False, capture_output=True)
    if where == "nowhere":
        assert done.returncode == 0, done.stderr
        assert stored("mine") == [text.encode() for text in texts]
        return
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert shelf.names() == []
    assert on_the_shelf() == [".mine.rest.building"]
    # A build of any name cleans up, and the killed one can be done again.
    make("other", tmp_path)
    assert on_the_shelf() == ["other.rest"]
    make("mine", tmp_path)
    assert stored("mine") == [text.encode() for text in texts]
    assert on_the_shelf() == ["mine.rest", "other.rest"]


def test_a_killed_build_can_be_started_again_at_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    subprocess.run([sys.executable, "-c", _KILLED, "finishing", str(tmp_path)], check=False, capture_output=True)
    make("mine", tmp_path)
    assert stored("mine") == [b"text"]
    assert on_the_shelf() == ["mine.rest"]


def test_a_second_build_of_a_name_is_told_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("second")
    path = shelf.path_of("mine")
    with Writer(path, 256, 100) as first:
        first.add(list(b"first"))
        first.end_document()
        with pytest.raises(DatastoreError, match="Another build of 'mine' is running"):
            make("mine", tmp_path)
        # One of another name runs beside it and leaves its work alone.
        make("other", tmp_path)
        first.finish(name="mine", model="Letters", vocabulary_digest=DIGEST, files=1)
    assert stored("mine") == [b"first"]
    assert stored("other") == [b"second"]


def test_many_builds_of_a_name_at_once_make_one_whole_store(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text " * 1000)
    command = [sys.executable, "-c", _KILLED, "nowhere", str(tmp_path)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    complaints = [process.communicate()[1].decode() for process in running]
    assert any(process.returncode == 0 for process in running)
    for process, complaint in zip(running, complaints, strict=True):
        assert process.returncode == 0 or "DatastoreError" in complaint
    assert stored("mine") == [b"text " * 1000]
    assert on_the_shelf() == ["mine.rest"]


def test_tokens_outside_the_vocabulary_never_get_in(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.rest", 10, 100) as writer:
        for stranger in (-1, 10):
            with pytest.raises(ValueError, match="outside"):
                writer.add([1, stranger])
    assert list(tmp_path.iterdir()) == []


def test_the_walk_is_in_a_fixed_order(tmp_path: Path) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / name).write_text(name)
    assert [path.name for path, _ in Corpus.under([tmp_path]).files] == ["a", "b", "c"]


@pytest.mark.demo
def test_the_default_store_is_python_reference_built_once(demo: Path) -> None:
    with vocabulary_of(demo) as (vocab, model):
        with default_store(vocab, vocab.digest, model) as store:
            made = store.path.stat().st_mtime_ns
            assert store.description.tokens > 50_000
            assert store.description.model == model
            ids = vocab.tokenize("The try statement specifies exception", add_special=False, parse_special=False)
            text = b"".join(map(vocab.piece, continuation([store], ids, 4).ids))
            assert text.startswith(b" handlers")
        (again,) = open_stores(vocab, vocab.digest, model)
        assert again.path.stat().st_mtime_ns == made
        again.close()
        store.path.write_bytes(b"damaged")
        with default_store(vocab, vocab.digest, model) as mended:
            assert mended.description.tokens == store.description.tokens


def test_special_tokens_in_a_file_are_plain_text(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("end</s>")
    with vocabulary_of(tiny) as (vocab, model):
        build("mine", [tmp_path / "a"], vocab, vocabulary_digest=vocab.digest, model=model)
        with Datastore(shelf.path_of("mine"), vocab.digest) as store:
            ids = store.segments[0].tokens.tolist()
        assert not any(vocab.is_end_of_generation(token) for token in ids)
        assert b"".join(map(vocab.piece, ids)).strip() == b"end</s>"


def test_own_stores_of_this_vocabulary_come_before_the_default_one(tmp_path: Path) -> None:
    write_store(shelf.path_of("fits"), [[1, 2, 3]])
    shelf.path_of("damaged").write_bytes(b"x")
    with Writer(shelf.path_of("other"), 256, 10) as writer:
        writer.add([1])
        writer.finish(name="other", model="Other", vocabulary_digest="other", files=1)
    stores = open_stores(Letters(), DIGEST)
    assert [store.name for store in stores] == ["fits"]
    for store in stores:
        store.close()


def test_a_python_without_its_reference_is_told_of_own_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    imports = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> ModuleType:
        if name.startswith("pydoc_data"):
            raise ModuleNotFoundError(name)
        return imports(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DatastoreError, match=r"without its language reference .*specchat rest build"):
        default_store(Letters(), DIGEST)


def test_a_cache_that_can_not_be_written_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(DatastoreError, match="can't be written"):
        default_store(Letters(), DIGEST)
