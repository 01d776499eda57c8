"""The hub, asked through huggingface_hub: what a repository holds, what a file is, and where its bytes lie."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final, TypeVar

from specchat import __version__
from specchat.catalogue.hub_errors import (
    NETWORK_LOST,
    Cancelled,
    HubError,
    Problem,
    Subject,
    explain,
    not_a_hub,
    offline,
)
from specchat.catalogue.sources import HubFile, ListedFile

DEFAULT_ENDPOINT: Final = "https://huggingface.co"
_TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})
_ETAG: Final = re.compile(r"[0-9A-Za-z_.-]{1,128}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TICK_S: Final = 0.1
IDENTITY: Final[dict[str, Any]] = {"library_name": "specchat", "library_version": __version__}
"""How this program names itself to the hub."""

Answer = TypeVar("Answer")


def endpoint() -> str:
    """The hub's address: HF_ENDPOINT, or huggingface.co."""
    return (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")


def offline_mode() -> bool:
    """Whether the environment forbids every request (HF_HUB_OFFLINE)."""
    value = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE") or ""
    return value.upper() in _TRUE


def _seconds(variable: str, default: float) -> float:
    value = os.environ.get(variable, "")
    return float(value) if value.isdigit() and int(value) > 0 else default


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, and how often something is tried again. Times are in seconds."""

    connect_s: float = field(default_factory=lambda: _seconds("HF_HUB_ETAG_TIMEOUT", 10.0))
    """For a connection, and for the hub's answer about a file (HF_HUB_ETAG_TIMEOUT)."""
    stall_s: float = field(default_factory=lambda: _seconds("HF_HUB_DOWNLOAD_TIMEOUT", 30.0))
    """Silence after which a connection counts as dead (HF_HUB_DOWNLOAD_TIMEOUT)."""
    tries: int = 5
    """Attempts in a row without progress."""
    first_pause_s: float = 1.0
    """Pause before the second attempt; it doubles from one to the next, up to 8 s."""
    longest_wait_s: float = 300.0
    """The longest wait that a server may ask for; the hub counts requests over 5 minutes."""

    def pause_s(self, attempt: int) -> float:
        """The pause after attempt number `attempt`, counted from 1."""
        return min(8.0, self.first_pause_s * 2.0 ** (attempt - 1))


@dataclass(frozen=True, slots=True)
class RemoteContent:
    """What the hub says of one file."""

    source: HubFile
    commit: str
    etag: str
    """The hub's name for the content: the SHA-256 of a large file, git's blob id of a small one."""
    size: int
    """In bytes."""
    url: str
    """Where the bytes lie; a storage host's address expires after a while."""

    @property
    def sha256(self) -> str | None:
        """The content's SHA-256, as the hub reports it, else as the source pins it."""
        return self.etag if _SHA256.fullmatch(self.etag) else self.source.sha256

    @property
    def git_id(self) -> str | None:
        """Git's blob id, where the hub reports that."""
        return self.etag if _COMMIT.fullmatch(self.etag) else None


@dataclass(frozen=True, slots=True)
class Listing:
    """What a repository holds at one commit."""

    repo: str
    commit: str
    files: tuple[ListedFile, ...]
    gated: bool
    licence: str | None


def _nothing(_: str) -> None:
    return


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Hub:
    """Asks the hub, patiently.

    `say` gets a sentence about every wait and repetition; `cancelled` is asked at least ten times a second while
    waiting, and Cancelled is raised where it agrees. All requests raise HubError with a sentence for the user.
    """

    offline: bool = False
    """Ask nothing; HF_HUB_OFFLINE says so too."""
    patience: Patience = field(default_factory=Patience)
    say: Callable[[str], None] = _nothing
    cancelled: Callable[[], bool] = _never

    @property
    def is_offline(self) -> bool:
        """Whether nothing may be asked."""
        return self.offline or offline_mode()

    def metadata(self, source: HubFile) -> RemoteContent:
        """Commit, etag, size and present address of one file (its further parts are not looked at)."""
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        _check_names(source.repo, source.file, source.revision)
        subject = Subject(endpoint(), source.repo, source.revision, source.file)
        url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=subject.endpoint)
        found = self._patiently(
            lambda: get_hf_file_metadata(url, timeout=self.patience.connect_s, endpoint=subject.endpoint, **IDENTITY),
            subject,
        )
        if not found.commit_hash or not found.etag or found.size is None:
            raise not_a_hub(subject)
        # Both become parts of paths.
        if not _COMMIT.fullmatch(found.commit_hash) or not _ETAG.fullmatch(found.etag) or found.etag.startswith("."):
            raise not_a_hub(subject)
        return RemoteContent(source, found.commit_hash, found.etag, found.size, found.location)

    def renewed(self, remote: RemoteContent) -> RemoteContent:
        """The same content at a fresh address; raises HubError if the hub meanwhile has another content there."""
        fresh = self.metadata(replace(remote.source, revision=remote.commit))
        if fresh.etag != remote.etag:
            raise HubError(
                f"{remote.source.file} has changed on the hub during the download. Start again.", Problem.CONTENT
            )
        return replace(remote, url=fresh.url)

    def listing(self, repo: str, revision: str | None = None) -> Listing:
        """All files of a repository with sizes and, for the large ones, SHA-256; one request."""
        from huggingface_hub import HfApi

        _check_names(repo, revision=revision)
        subject = Subject(endpoint(), repo, revision)
        api = HfApi(endpoint=subject.endpoint, **IDENTITY)
        info = self._patiently(
            lambda: api.model_info(repo, revision=revision, files_metadata=True, timeout=self.patience.stall_s),
            subject,
        )
        if not info.sha or info.siblings is None:
            raise not_a_hub(subject)
        files = tuple(
            ListedFile(entry.rfilename, entry.size, entry.lfs.sha256 if entry.lfs else None) for entry in info.siblings
        )
        licence = getattr(info.card_data, "license", None)
        return Listing(repo, info.sha, files, bool(info.gated), licence if isinstance(licence, str) else None)

    def wait(self, seconds: float, why: str) -> None:
        """Say why, and sleep; raises Cancelled within a tenth of a second."""
        self.say(f"{why} Waiting {seconds:.0f} s." if seconds >= 1 else why)
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check_cancelled()
            time.sleep(min(_TICK_S, left))

    def check_cancelled(self) -> None:
        """Raise Cancelled if the user has stopped this."""
        if self.cancelled():
            raise Cancelled("The download was stopped. What has arrived is kept.")

    def pause(self, error: HubError, attempt: int) -> None:
        """Wait before the next attempt, as long as the server asks; raises `error` where that is no use."""
        # A connection that was cut because the user stopped is nothing to complain of.
        self.check_cancelled()
        wait_s = self.patience.pause_s(attempt) if error.wait_s is None else error.wait_s
        if attempt >= self.patience.tries or wait_s > self.patience.longest_wait_s:
            raise error
        self.wait(wait_s, f"{_first_sentence(error)} Trying again ({attempt + 1} of {self.patience.tries}).")

    def recover(self, error: HubError, attempt: int, remote: RemoteContent, *, lost: bool = False) -> RemoteContent:
        """What to ask for next after attempt number `attempt`, counted from 1, failed: at a fresh address, or later.

        `lost`: the network worked before, so that its loss may pass. Raises `error` where there is no use in trying.
        """
        if error.problem is Problem.ADDRESS:
            if attempt > 1:
                self.pause(error, attempt)
            return self.renewed(remote)
        if not error.again and not (lost and error.problem in NETWORK_LOST):
            raise error
        self.pause(error, attempt)
        return remote

    def _patiently(self, request: Callable[[], Answer], subject: Subject) -> Answer:
        if self.is_offline:
            raise offline(subject)
        _quieten_library()
        attempt = 1
        while True:
            self.check_cancelled()
            try:
                return request()
            except Exception as raised:
                error = explain(raised, subject)
                if not error.again:
                    raise error from None
            self.pause(error, attempt)
            attempt += 1


def _check_names(repo: str, file: str = "file", revision: str | None = None) -> None:
    """Names become paths and addresses: refuse those that would lead out of their folder."""
    path = PurePosixPath(file)
    if not file or path.is_absolute() or ".." in path.parts or "\\" in file:
        raise HubError(f"{file!r} is no name of a file in a repository.", Problem.NO_FILE)
    if repo.count("/") > 1 or not all(repo.split("/")) or ".." in repo:
        raise HubError(f"{repo!r} is no name of a repository; it should look like user/name.", Problem.NO_REPOSITORY)
    if revision is not None and (revision.startswith("/") or ".." in revision or "\\" in revision):
        raise HubError(f"{revision!r} is no name of a revision.", Problem.NO_REVISION)


def _first_sentence(error: HubError) -> str:
    return str(error).split(". ", 1)[0].rstrip(".") + "."


def _quieten_library() -> None:
    """The library warns on stderr about what is said here already; its own variables still turn that on."""
    if not os.environ.get("HF_DEBUG") and not os.environ.get("HF_HUB_VERBOSITY"):
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
