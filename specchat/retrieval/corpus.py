"""From paths to pieces of text: what can't be read is skipped and counted."""

from __future__ import annotations

import codecs
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final

_BLOCK_BYTES: Final = 1 << 20
_PIECE_CHARS: Final = 8192
"""Text goes to the tokeniser in pieces: some of llama.cpp's split with regular expressions that recurse."""


class Skipped(StrEnum):
    """Why something was left out, as the summary says it."""

    BINARY = "binary"
    EMPTY = "empty"
    NOT_UTF8 = "not UTF-8"
    UNREADABLE = "unreadable"
    SPECIAL = "not a regular file"
    SEEN = "reached twice (links)"


@dataclass(slots=True)
class Corpus:
    """The regular files under some paths; directories are walked, hidden ones in them are not.

    Links are followed; what was reached already is skipped, so that a loop ends.
    """

    files: list[tuple[Path, int]] = field(default_factory=list)
    """Files and their sizes in bytes."""
    skipped: Counter[Skipped] = field(default_factory=Counter)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def under(cls, paths: Iterable[Path]) -> Corpus:
        """Walk `paths` in order."""
        corpus = cls()
        for path in paths:
            corpus._walk(path)
        return corpus

    @property
    def total_bytes(self) -> int:
        """The size of all files together."""
        return sum(size for _, size in self.files)

    def _walk(self, start: Path) -> None:
        pending = [start]
        while pending:
            path = pending.pop()
            try:
                status = path.stat()
                if not stat.S_ISDIR(status.st_mode):
                    self._take(path, status)
                elif self._is_new(status):
                    inside = sorted(path.iterdir(), reverse=True)
                    pending += [each for each in inside if not (each.name.startswith(".") and each.is_dir())]
            except OSError:
                self.skipped[Skipped.UNREADABLE] += 1

    def _take(self, path: Path, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            # Reading a pipe or a device may never end.
            self.skipped[Skipped.SPECIAL] += 1
        elif status.st_size == 0:
            self.skipped[Skipped.EMPTY] += 1
        elif self._is_new(status):
            self.files.append((path, status.st_size))

    def _is_new(self, status: os.stat_result) -> bool:
        identity = (status.st_dev, status.st_ino)
        if identity in self._seen and status.st_ino:
            self.skipped[Skipped.SEEN] += 1
            return False
        self._seen.add(identity)
        return True

    def texts(self) -> Iterator[tuple[int, Iterator[str]]]:
        """The files that are text: their size in bytes and their pieces, which must be read before the next file."""
        for path, size in self.files:
            try:
                with path.open("rb") as file:
                    reason = _unfit(file)
                    if reason is None:
                        file.seek(0)
                        yield size, _pieces(file)
                    else:
                        self.skipped[reason] += 1
            except OSError:
                self.skipped[Skipped.UNREADABLE] += 1


def _unfit(file: BinaryIO) -> Skipped | None:
    """Why a file is no text, by all of its bytes: half a document can't be taken back from a datastore."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while block := file.read(_BLOCK_BYTES):
            if b"\0" in block:
                return Skipped.BINARY
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return Skipped.NOT_UTF8
    return None


def _pieces(file: BinaryIO) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    held = ""
    while block := file.read(_BLOCK_BYTES):
        held += decoder.decode(block)
        cut = max(0, len(held) - _PIECE_CHARS)
        end = 0
        for piece in pieces(held):
            if end >= cut:
                break
            end += len(piece)
            yield piece
        held = held[end:]
    yield from pieces(held + decoder.decode(b"", final=True))


def pieces(text: str) -> Iterator[str]:
    """Cut `text` after line ends where it can be, else at blanks, else anywhere."""
    at = 0
    while at < len(text):
        end = at + _PIECE_CHARS
        if end < len(text):
            line = text.rfind("\n", at, end) + 1
            # A blank goes with the word after it, as tokens have it.
            end = line or max(text.rfind(" ", at + 1, end), 0) or end
        yield text[at:end]
        at = end
