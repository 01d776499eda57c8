"""Models that were fetched while something else was looked at."""

from __future__ import annotations

from specchat.tui.shelf import Download, DownloadState


def arrived(downloads: dict[str, Download]) -> list[str]:
    """Take those that are here off the list of downloads, and name them."""
    done = [id for id, fetched in downloads.items() if fetched.progress().state is DownloadState.DONE]
    for id in done:
        del downloads[id]
    return done
