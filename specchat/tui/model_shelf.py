"""The real shelf: the catalogue, what fits this machine, and downloads from the hub."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from specchat.tui.shelf import DownloadProgress, DownloadState, Fit, Offer, ShelfError, ShelfRow

if TYPE_CHECKING:
    from specchat.catalogue.entries import Entry
    from specchat.catalogue.progress import Progress
    from specchat.chat.models import Models
    from specchat.fit.verdict import Verdict

_THOUSAND: Final = 1000


class ModelShelf:
    """Opens what it needs when it is first asked: the chat's first screen waits for none of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._judging: Models | None = None
        self._freed = 0

    def rows(self) -> Sequence[ShelfRow]:
        """All models, those that may be chosen unasked first."""
        with _told():
            from specchat.chat.models import Models

            return [_row(row.entry, row.entry.id, row.size, row.here) for row in Models().listed()]

    def find(self, name: str) -> ShelfRow:
        """The model of this id, repository or path."""
        with _told():
            from specchat.catalogue.entries import Catalogue
            from specchat.catalogue.locate import is_here, locate
            from specchat.chat.models import size_of

            entry = Catalogue().find(name)
            if not entry.hub_sources:
                # It can't be fetched: where it is missing, that is all there is to say.
                locate(entry.target, name)
            return _row(entry, name, size_of(entry), is_here(entry.target))

    def look_again(self, freed: int) -> None:
        """Judge by the memory that is free now, and `freed` bytes more."""
        with self._lock:
            self._freed = freed
            self._close()

    def fit(self, id: str) -> Fit:
        """Whether it fits this machine, by its files or by what is known of them."""
        with self._lock, _told():
            models = self._opened()
            verdict = models.verdict(models.catalogue.find(id))
        return _words(verdict)

    def best(self) -> str | None:
        """The best model that fits, here or not."""
        with self._lock, _told():
            entry = self._opened().best()
        return None if entry is None else entry.id

    def rest(self) -> None:
        """End the process that was asked what fits: on a GPU it holds memory."""
        with self._lock:
            self._close()

    def offer(self, id: str) -> Offer:
        """What is missing of a model and its draft; the hub is asked where a repository alone is named."""
        with _told():
            from specchat.catalogue.cache import cache_root, free_bytes
            from specchat.catalogue.entries import Catalogue
            from specchat.catalogue.hub import Hub
            from specchat.catalogue.locate import locate
            from specchat.catalogue.sources import HubFile, HubQuery
            from specchat.chat.models import missing, settled

            entry = Catalogue().find(id)
            if any(isinstance(source, HubQuery) for source in missing(entry)):
                entry = settled(entry, Hub())
            files = tuple(
                (source.file.rpartition("/")[2], source.total_size)
                for source in missing(entry)
                if isinstance(source, HubFile)
            )
            if not files:
                locate(entry.target, id)
                raise ShelfError(f"{entry.name} is here already.")
            place = cache_root()
            return Offer(id, entry.name, files, entry.license, str(place), free_bytes(place), entry.gated)

    def fetch(self, id: str) -> HubDownload:
        """Begin to fetch what is missing of a model and its draft."""
        with _told():
            from specchat.catalogue.entries import Catalogue

            Catalogue().find(id)
        return HubDownload(id)

    def close(self) -> None:
        """End the process that was asked what fits."""
        self.rest()

    def _opened(self) -> Models:
        from specchat.chat.models import Models
        from specchat.fit.check import Check

        if self._judging is None:
            self._judging = Models(check=Check(freed=self._freed))
        return self._judging

    def _close(self) -> None:
        models, self._judging = self._judging, None
        if models is not None:
            models.close()


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a catalogue, a name or the network is said as the shelf's own sentence."""
    from specchat.catalogue.errors import CatalogueError, ModelUnavailable
    from specchat.llama.errors import LlamaError

    try:
        yield
    except (CatalogueError, ModelUnavailable, LlamaError) as error:
        raise ShelfError(str(error)) from None
    except OSError as error:
        raise ShelfError(f"The models can't be looked at: {error.strerror or error}.") from None


def _row(entry: Entry, id: str, size: int | None, here: bool) -> ShelfRow:
    # In the file or beside it: its column is narrow.
    draft = entry.drafted_by.removesuffix(" in the file")
    return ShelfRow(id, entry.name, size, here, draft, entry.method or "auto")


def _words(verdict: Verdict | None) -> Fit:
    if verdict is None:
        return Fit("not known")
    about = "" if verdict.demand.exact else "~"
    if verdict.fits:
        return Fit(f"fits {about}{_short(verdict.largest_context)}", True, verdict.largest_context)
    if verdict.largest_context:
        return Fit(f"fits with {about}{_short(verdict.largest_context)}", False, verdict.largest_context)
    return Fit(f"does not fit: {verdict.missing / 1024**3:.1f} GiB short", False)


def _short(tokens: int) -> str:
    return f"{tokens // _THOUSAND}k" if tokens >= 10 * _THOUSAND else f"{tokens:,}"


class HubDownload:
    """A download in a thread of its own; what arrived is kept whatever happens."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._now = DownloadProgress(DownloadState.RUNNING)
        self._pause = threading.Event()
        self._thread = self._started()

    def progress(self) -> DownloadProgress:
        """How far it is."""
        return self._now

    def pause(self) -> None:
        """Stop for now."""
        self._pause.set()

    def resume(self) -> None:
        """Go on, once the last run has ended; one that runs and is not being paused is left alone."""
        state = self._now.state
        if state is DownloadState.DONE or (state is DownloadState.RUNNING and not self._pause.is_set()):
            return
        before, self._pause = self._thread, threading.Event()
        self._now = DownloadProgress(DownloadState.RUNNING, self._now.done, self._now.total)
        self._thread = self._started(before)

    def _started(self, before: threading.Thread | None = None) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(before, self._pause), daemon=True, name="download")
        thread.start()
        return thread

    def _run(self, before: threading.Thread | None, pause: threading.Event) -> None:
        from specchat.catalogue.hub_errors import Cancelled

        if before is not None:
            before.join()
        state, error = DownloadState.DONE, ""
        try:
            self._fetch(pause)
        except Cancelled:
            state = DownloadState.PAUSED
        except Exception as problem:
            # Whatever it is, the chat goes on and says so.
            state, error = DownloadState.FAILED, str(problem)
        if pause is self._pause:
            self._now = DownloadProgress(state, self._now.done, self._now.total, None, error)

    def _fetch(self, pause: threading.Event) -> None:
        from specchat.catalogue.download import fetch, plan
        from specchat.catalogue.entries import Catalogue
        from specchat.catalogue.hub import Hub
        from specchat.chat.models import files_to_fetch

        hub = Hub(cancelled=pause.is_set)
        fetch(plan(files_to_fetch(Catalogue().find(self._model), hub), hub), hub, lambda now: self._show(now, pause))

    def _show(self, now: Progress, pause: threading.Event) -> None:
        if pause is self._pause:
            self._now = DownloadProgress(DownloadState.RUNNING, now.done, now.size, now.bytes_per_s)
