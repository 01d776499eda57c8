"""Making a datastore from files, and the one that every machine can make."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import platformdirs

from specchat.retrieval import shelf
from specchat.retrieval.corpus import Corpus, Skipped, pieces
from specchat.retrieval.datastore import Datastore
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.writer import SEGMENT_TOKENS, Writer


class Tokeniser(Protocol):
    """A vocabulary; `specchat.llama.vocab.Vocab` is one."""

    size: int

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The ids of `text`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a build is."""

    files: int
    tokens: int
    bytes_read: int
    bytes_all: int
    sorting: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """What a build made and left out."""

    path: Path
    files: int
    tokens: int
    skipped: Counter[Skipped]

    @property
    def summary(self) -> str:
        """One line for the user."""
        line = f"{self.tokens:,} tokens of {_counted(self.files)}"
        return f"{line}; skipped {_listed(self.skipped)}." if self.skipped.total() else f"{line}."


def _counted(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"


def _listed(skipped: Counter[Skipped]) -> str:
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(skipped.items()))
    return f"{_counted(skipped.total())} ({reasons})"


def build(
    name: str,
    paths: Iterable[Path],
    tokeniser: Tokeniser,
    *,
    vocabulary_digest: str,
    model: str,
    replace: bool = False,
    segment_tokens: int = SEGMENT_TOKENS,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Built:
    """Make the datastore `name` from the text files under `paths`.

    Raises DatastoreError for a bad or (without `replace`) taken name, a path that isn't there, paths without usable
    text and a second build of one name; OSError where the disk won't. None of them leaves anything behind.
    """
    path = shelf.path_of(name)
    if path.exists() and not replace:
        raise DatastoreError(
            f"There is a datastore {name!r} already. Choose another name, add --force to replace it, or remove it "
            f"first: specchat rest rm {name}."
        )
    corpus = _corpus(paths)
    with Writer(path, tokeniser.size, segment_tokens) as writer:
        files = _read(corpus, writer, tokeniser, progress)
        if not files:
            raise _nothing(corpus)
        writer.finish(name=name, model=model, vocabulary_digest=vocabulary_digest, files=files)
    return Built(path, files, writer.tokens, corpus.skipped)


def _corpus(paths: Iterable[Path]) -> Corpus:
    paths = list(paths)
    for path in paths:
        if not path.exists():
            raise DatastoreError(f"There is no file or directory {path}.")
    return Corpus.under(paths)


def _nothing(corpus: Corpus) -> DatastoreError:
    reason = f"skipped {_listed(corpus.skipped)}" if corpus.skipped else "there are no files"
    return DatastoreError(f"Nothing to build a datastore from: {reason}. Name text or code files.")


def _read(corpus: Corpus, writer: Writer, tokeniser: Tokeniser, progress: Callable[[Progress], None]) -> int:
    """Feed every text to the writer; how many there were."""
    files, done, total = 0, 0, corpus.total_bytes
    writer.sorting = lambda: progress(Progress(files, writer.tokens, done, total, sorting=True))
    for size, parts in corpus.texts():
        before = done
        for part in parts:
            writer.add(tokeniser.tokenize(part, add_special=False, parse_special=False))
            done = min(done + len(part), before + size)
            progress(Progress(files, writer.tokens, done, total))
        writer.end_document()
        files, done = files + 1, before + size
    return files


def default_store(vocab: Tokeniser, vocabulary_digest: str, model: str = "this model") -> Datastore:
    """The datastore of Python's language reference (PSF licence), which comes with Python; built on first use.

    Raises DatastoreError where this Python has no such text or the cache directory can't be written.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    name = f"python-{version}-reference"
    directory = platformdirs.user_cache_path("specchat", appauthor=False) / "rest"
    path = directory / f"{name}-{vocabulary_digest[:16]}{shelf.SUFFIX}"
    try:
        return Datastore(path, vocabulary_digest, model)
    except DatastoreError:
        # Not built yet, or damaged: it can be made anew at any time.
        documents = _language_reference()
    try:
        with Writer(path, vocab.size, segment_tokens=1 << 20) as writer:
            for document in documents:
                for part in pieces(document):
                    writer.add(vocab.tokenize(part, add_special=False, parse_special=False))
                writer.end_document()
            writer.finish(name=name, model=model, vocabulary_digest=vocabulary_digest, files=len(documents))
    except OSError as error:
        raise DatastoreError(
            f"The datastore of Python's reference can't be written to {directory} ({error.strerror}). "
            f"Build one of your own: specchat rest build NAME PATH..."
        ) from None
    return Datastore(path, vocabulary_digest, model)


def open_stores(vocab: Tokeniser, vocabulary_digest: str, model: str = "this model") -> list[Datastore]:
    """Every datastore of this vocabulary, else the default one; raises DatastoreError where that can't be made."""
    return own_stores(vocabulary_digest, model) or [default_store(vocab, vocabulary_digest, model)]


def own_stores(vocabulary_digest: str, model: str = "this model") -> list[Datastore]:
    """The user's datastores of this vocabulary."""
    stores = []
    for name in shelf.names():
        try:
            stores.append(Datastore(shelf.path_of(name), vocabulary_digest, model))
        except DatastoreError:
            # Of another vocabulary, or damaged: `rest ls` says which.
            continue
    return stores


def _language_reference() -> Sequence[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise DatastoreError(
            "This Python comes without its language reference (pydoc_data), so there is nothing to draft from. "
            "Build a datastore of your own: specchat rest build NAME PATH..."
        ) from None
    return list(topics.values())
