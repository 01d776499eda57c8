"""The real shelf: the catalogue, what fits this machine, and downloads from the hub."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from specchat.tui.shelf import DownloadProgress, DownloadState, Fit, ShelfRow

if TYPE_CHECKING:
    from specchat.catalogue.progress import Progress
    from specchat.chat.models import Models
    from specchat.fit.verdict import Verdict

_THOUSAND: Final = 1000


class ModelShelf:
    """Opens what it needs when it is first asked: the chat's first screen waits for none of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: Models | None = None

    def _opened(self) -> Models:
        from specchat.chat.models import Models

        if self._models is None:
            self._models = Models()
        return self._models

    def rows(self) -> Sequence[ShelfRow]:
        """All models, those that may be chosen unasked first. Raises CatalogueError."""
        from specchat.catalogue.sources import CutFromTarget

        with self._lock:
            listed = self._opened().listed()
        rows = []
        for row in listed:
            entry = row.entry
            draft = "own layers" if isinstance(entry.draft, CutFromTarget) else "draft model" if entry.draft else ""
            rows.append(ShelfRow(entry.id, entry.name, row.size, row.here, draft, entry.method or "auto"))
        return rows

    def fit(self, id: str) -> Fit:
        """Whether it fits this machine, by its files or by what is known of them."""
        with self._lock:
            models = self._opened()
            verdict = models.verdict(models.catalogue.find(id))
        return _words(verdict)

    def best(self) -> str | None:
        """The best model that fits, here or not."""
        with self._lock:
            entry = self._opened().best()
        return None if entry is None else entry.id

    def fetch(self, id: str) -> HubDownload:
        """Begin to fetch what is missing of a model and its draft."""
        with self._lock:
            entry = self._opened().catalogue.find(id)
        return HubDownload(entry.id)

    def close(self) -> None:
        """End the process that was asked what fits."""
        with self._lock:
            if self._models is not None:
                self._models.close()
                self._models = None


def _words(verdict: Verdict | None) -> Fit:
    if verdict is None:
        return Fit("not known")
    about = "" if verdict.demand.exact else "~"
    if verdict.fits:
        return Fit(f"fits {about}{_short(verdict.largest_context)}", True)
    if verdict.largest_context:
        return Fit(f"fits with {about}{_short(verdict.largest_context)}", False)
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
        """Go on, once the last run has ended."""
        if self._now.state is DownloadState.DONE:
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
