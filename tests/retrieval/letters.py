"""A vocabulary of bytes, and stores made with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specchat.retrieval.datastore import Datastore
from specchat.retrieval.writer import Writer

DIGEST = "of the letters"


class Letters:
    """Every byte is a token."""

    size = 256

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert not add_special
        assert not parse_special
        return list(text.encode())


def write_store(
    path: Path, documents: Sequence[Sequence[int]], *, size: int = Letters.size, segment_tokens: int = 1 << 16
) -> Path:
    """A datastore of token ids, document by document."""
    with Writer(path, size, segment_tokens) as writer:
        for document in documents:
            writer.add(document)
            writer.end_document()
        writer.finish(name=path.stem, model="Letters", vocabulary_digest=DIGEST, files=len(documents))
    return path


def store_of(path: Path, *texts: str, segment_tokens: int = 1 << 16) -> Datastore:
    """An open datastore of texts."""
    return Datastore(write_store(path, [list(text.encode()) for text in texts], segment_tokens=segment_tokens), DIGEST)
