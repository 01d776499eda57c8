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
    largest: int = 0
    """The largest context that the model was trained for and that fits, in tokens; 0: not known, or none."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What fetching a model means."""

    id: str
    name: str
    files: tuple[tuple[str, int | None], ...]
    """Those that are missing, with their bytes; None where unknown."""
    licence: str
    """Empty: not known."""
    destination: str
    free: int
    """Bytes free there."""
    gated: bool = False
    """The hub wants its terms accepted first."""

    @property
    def size(self) -> int | None:
        """Bytes to fetch; None where the size of a file is not known."""
        sizes = [count for _, count in self.files if count is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None


class ShelfError(LookupError):
    """What the shelf can't do, as a sentence for the user."""


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
    """The models there are. Every method raises ShelfError."""

    def rows(self) -> Sequence[ShelfRow]:
        """All of them, quickly: nothing is opened for it."""

    def find(self, name: str) -> ShelfRow:
        """The model of this id, repository or path; `here` says whether it can be opened, with a draft or without."""

    def look_again(self, freed: int) -> None:
        """Judge by the memory that is free now, and `freed` bytes more: those of the model that is open."""

    def fit(self, id: str) -> Fit:
        """Whether it fits this machine; may take seconds."""

    def best(self) -> str | None:
        """The id of the best model that fits this machine; None where none does. May take seconds."""

    def rest(self) -> None:
        """All is judged: give back what judging holds, which on a GPU is memory."""

    def offer(self, id: str) -> Offer:
        """What fetching it would mean; may ask the hub about a model that the catalogue doesn't know."""

    def fetch(self, id: str) -> Download:
        """Begin to fetch its files, draft included."""


class EmptyShelf:
    """A shelf for a program that was given none: nothing to choose from."""

    def rows(self) -> Sequence[ShelfRow]:
        """None."""
        return ()

    def find(self, name: str) -> ShelfRow:
        """Whatever is named; the worker knows whether it is there."""
        return ShelfRow(name, name, None, True)

    def look_again(self, freed: int) -> None:
        """Nothing to look at."""

    def fit(self, id: str) -> Fit:
        """Not known."""
        return Fit("")

    def best(self) -> str | None:
        """None."""
        return None

    def rest(self) -> None:
        """Nothing is held."""

    def offer(self, id: str) -> Offer:
        """There is nothing to fetch from."""
        raise ShelfError(f"There is nowhere to fetch {id} from.")

    def fetch(self, id: str) -> Download:
        """There is nothing to fetch from."""
        raise ShelfError(f"There is nowhere to fetch {id} from.")
