"""What the chat asks of whoever knows the models: the list, what fits, and how to fetch one.

The chat calls these from threads of its own; they may take their time, but not each other's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ShelfRow:
    """One model that can be chosen."""

    id: str
    """What `Load.model` takes."""
    name: str
    size: int | None
    """Bytes of all its files; None where unknown."""
    here: bool
    """Its files are on this machine."""
    draft: str = ""
    """What drafts for it, as a word or two."""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits this machine."""

    words: str
    """A few: fits 40k, fits with 8k, does not fit: 3.1 GB short."""
    fits: bool | None = None
    """None: not known."""


class DownloadState(StrEnum):
    """Where a download stands."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """Where a download stands, in bytes."""

    state: DownloadState
    done: int = 0
    total: int | None = None
    bytes_s: float | None = None
    error: str = ""
    """A sentence, where it failed."""


class Download(Protocol):
    """A download under way; every method returns at once."""

    def progress(self) -> DownloadProgress:
        """How far it is."""

    def pause(self) -> None:
        """Stop for now; what was fetched is kept."""

    def resume(self) -> None:
        """Go on from where it stopped, also after a failure."""


class Shelf(Protocol):
    """The models there are."""

    def rows(self) -> Sequence[ShelfRow]:
        """All of them, quickly: nothing is opened for it. Raises an exception whose text is a sentence."""

    def fit(self, id: str) -> Fit:
        """Whether it fits this machine; may take seconds."""

    def best(self) -> str | None:
        """The id of the best model that fits this machine; None where none does."""

    def fetch(self, id: str) -> Download:
        """Begin to fetch its files, draft included. Raises an exception whose text is a sentence."""


class EmptyShelf:
    """A shelf for a program that was given none: nothing to choose from."""

    def rows(self) -> Sequence[ShelfRow]:
        """None."""
        return ()

    def fit(self, id: str) -> Fit:
        """Not known."""
        return Fit("")

    def best(self) -> str | None:
        """None."""
        return None

    def fetch(self, id: str) -> Download:
        """There is nothing to fetch from."""
        raise LookupError(f"There is nowhere to fetch {id} from.")
