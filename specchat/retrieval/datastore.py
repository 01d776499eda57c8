"""A datastore: one read-only file of token ids and their suffix arrays, mapped into memory and never copied.

Layout, all in the machine's own byte order: the magic; for each segment its tokens [n], their suffix array [n] and
the first row of each token [V + 2], int32; a JSON description; its length (uint64); the magic again. What is cut off
has no end, so a truncated file is never taken for a store. Documents are parted by the id V, which is no token.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np

from specchat.retrieval.errors import DatastoreError

MAGIC: Final = b"specchat rest 1\n"
_LENGTH: Final = struct.Struct("=Q")
_LONGEST_DESCRIPTION: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Description:
    """What a datastore says about itself."""

    name: str
    model: str
    """The model whose vocabulary the text was cut with, by its own name."""
    vocabulary_digest: str
    vocabulary_size: int
    segments: tuple[int, ...]
    """Tokens in each."""
    files: int
    byte_order: str = sys.byteorder

    @property
    def tokens(self) -> int:
        """Tokens in all segments, the marks between documents included."""
        return sum(self.segments)

    def segment_bytes(self, n: int) -> int:
        """The size of a segment of `n` tokens."""
        return 4 * (n + n + self.vocabulary_size + 2)

    def to_bytes(self) -> bytes:
        """The end of the file: the description, its length, the magic."""
        text = json.dumps(asdict(self)).encode()
        return text + _LENGTH.pack(len(text)) + MAGIC

    @classmethod
    def of_json(cls, text: bytes) -> Description:
        """Raises ValueError for anything else than a description."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or not isinstance(fields.get("segments"), list):
            raise ValueError("no description")
        numbers = [fields.get("vocabulary_size"), fields.get("files"), *fields["segments"]]
        words = [fields.get(key) for key in ("name", "model", "vocabulary_digest", "byte_order")]
        if not all(type(n) is int and 0 <= n < 1 << 40 for n in numbers) or not all(type(w) is str for w in words):
            raise ValueError("a field is missing")
        known = {field: fields[field] for field in cls.__dataclass_fields__}
        return cls(**{**known, "segments": tuple(fields["segments"])})


class Segment(NamedTuple):
    """Views of one part of the file, format "i"."""

    tokens: memoryview
    order: memoryview
    firsts: memoryview


class Datastore:
    """An open datastore; `segments` are valid until `close`.

    Raises DatastoreError for a file that is missing, damaged, of another byte order or, where `vocabulary_digest` is
    given, of another vocabulary; `model` is who asks, by name.
    """

    def __init__(self, path: Path, vocabulary_digest: str | None = None, model: str = "this model") -> None:
        self.path = path
        self.segments: list[Segment] = []
        self.description = read_description(path)
        if vocabulary_digest is not None and vocabulary_digest != self.description.vocabulary_digest:
            raise DatastoreError(
                f"The datastore {self.name!r} holds tokens of {self.description.model} "
                f"(a vocabulary of {self.description.vocabulary_size:,}), and {model} has another vocabulary. "
                f"Build one for it: specchat rest build NAME PATH... -m MODEL."
            )
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):
            raise damaged(path, "it changed while it was opened") from None
        self._whole = memoryview(self._map)
        try:
            self._cut_segments()
        except DatastoreError:
            self.close()
            raise

    def _cut_segments(self) -> None:
        at, size = len(MAGIC), self.description.vocabulary_size
        for n in self.description.segments:
            views = []
            for length in (n, n, size + 2):
                views.append(self._whole[at : at + 4 * length].cast("i"))
                at += 4 * length
            self.segments.append(Segment(*views))
            # Searching trusts these rows; wrong tokens or positions only cost good drafts.
            firsts = np.frombuffer(views[2], np.int32)
            sound = firsts[0] == 0 and firsts[-1] == n and bool((firsts[1:] >= firsts[:-1]).all())
            del firsts
            if not sound:
                raise damaged(self.path, "its index makes no sense")

    @property
    def name(self) -> str:
        """What it is called."""
        return self.description.name

    def close(self) -> None:
        """Unmap the file; the segments are gone."""
        for segment in self.segments:
            for view in segment:
                view.release()
        self.segments = []
        self._whole.release()
        self._map.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def damaged(path: Path, reason: str) -> DatastoreError:
    """The error for a file that is no whole datastore."""
    return DatastoreError(
        f"The datastore {path} is damaged: {reason}. Remove it (specchat rest rm NAME) and build it again."
    )


def read_description(path: Path) -> Description:
    """The description of the datastore at `path`, whose size is checked against it; raises DatastoreError."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            ending = _LENGTH.size + len(MAGIC)
            if size < len(MAGIC) + ending or file.read(len(MAGIC)) != MAGIC:
                raise damaged(path, "it does not begin as one")
            file.seek(size - ending)
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            if file.read() != MAGIC or length > min(_LONGEST_DESCRIPTION, size - ending):
                raise damaged(path, "its end is missing")
            file.seek(size - ending - length)
            text = file.read(length)
    except FileNotFoundError:
        raise DatastoreError(f"There is no datastore {path}.") from None
    except OSError as error:
        raise DatastoreError(f"The datastore {path} can't be read: {error.strerror}.") from None
    return _checked(path, text, size - ending - length)


def _checked(path: Path, text: bytes, end_of_segments: int) -> Description:
    try:
        description = Description.of_json(text)
    except (ValueError, RecursionError):
        raise damaged(path, "its description makes no sense") from None
    if description.byte_order != sys.byteorder:
        raise DatastoreError(f"The datastore {path} was made on a machine of another byte order. Build it here.")
    if len(MAGIC) + sum(map(description.segment_bytes, description.segments)) != end_of_segments:
        raise damaged(path, "its size is not what it says")
    return description
