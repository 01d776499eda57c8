"""The hub's cache on this machine, shared with every other program that uses it.

`models--user--name/` holds `blobs/<etag>` (the contents), `snapshots/<commit>/<file>` (links to them) and
`refs/<branch>` (commits). Looking a file up reads only the disk and imports nothing of huggingface_hub.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.sources import HubFile, ListedFile

if TYPE_CHECKING:
    from specchat.catalogue.hub import RemoteContent

PARTIAL: Final = ".specchat.incomplete"
"""End of an unfinished download's name. Its last part is what the hub's own tools list, and prune, as unfinished."""
WRONG: Final = ".wrong.incomplete"
"""End of the name of a download whose content turned out wrong."""
MAIN: Final = "main"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TRUE: Final = frozenset({"1", "ON", "YES", "TRUE"})
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


class DiskFull(Exception):
    """The disk can't take a download; the message says where, and how much is needed."""


class CacheNotWritable(ModelUnavailable):
    """The cache can't be written to; the message says where, why, and what to set instead."""


def write_failure(error: OSError, path: Path) -> Exception:
    """The error for the user when writing to `path` in the cache failed."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = free_bytes(path)
        return DiskFull(
            f"The disk is full: {free:,} bytes are left for {path.parent}. Free some space and start again; what has "
            "arrived is kept."
        )
    reason = error.strerror or str(error)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return CacheNotWritable(
            f"The cache {cache_root()} can't be written to ({reason}). Set HF_HOME to a folder of your own, or ask "
            "whoever owns this one."
        )
    return CacheNotWritable(f"{path} can't be written or read back ({reason}). Check the disk.")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What fails to be written to `path` in here becomes the error for the user."""
    try:
        yield
    except OSError as error:
        raise write_failure(error, path) from error


def cache_root() -> Path:
    """The folder of the hub's cache, by the same variables that huggingface_hub reads."""
    variables = os.environ
    home = variables.get("HF_HOME") or os.path.join(  # noqa: PTH118 - variables in it are expanded below
        variables.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
    )
    chosen = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    return Path(os.path.expandvars(chosen)).expanduser()


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that holds, or would hold, `path`."""
    for place in (path, *path.parents):
        if place.exists():
            return shutil.disk_usage(place).free
    return 0


def repository(repo: str) -> Path:
    """The folder of one repository."""
    return cache_root() / "--".join(("models", *repo.split("/")))


def blob_path(remote: RemoteContent) -> Path:
    """Where the content of a remote file lies once it is whole and checked."""
    return repository(remote.source.repo) / "blobs" / remote.etag


def partial_path(remote: RemoteContent) -> Path:
    """Where the content grows while it is fetched."""
    blob = blob_path(remote)
    return blob.with_name(blob.name + PARTIAL)


def wrong_path(remote: RemoteContent) -> Path:
    """Where a content that turned out wrong is set aside."""
    blob = blob_path(remote)
    return blob.with_name(blob.name + WRONG)


def lock_path(remote: RemoteContent) -> Path:
    """The lock that huggingface_hub too takes before it fetches this content."""
    return cache_root() / ".locks" / repository(remote.source.repo).name / f"{remote.etag}.lock"


def snapshot_path(remote: RemoteContent) -> Path:
    """Where the file is found by its name."""
    return repository(remote.source.repo).joinpath("snapshots", remote.commit, *remote.source.file.split("/"))


def cached_path(source: HubFile) -> Path | None:
    """The model's first part in the cache, if all parts are there and agree with what is pinned; no request is made.

    Without a pinned commit this is what the branch or tag meant when it was last asked for, or, with a pinned
    SHA-256, that content in any snapshot.
    """
    for snapshot in _snapshots(source):
        paths = [snapshot.joinpath(*part.file.split("/")) for part in source.files]
        if all(_agrees(part, path) for part, path in zip(source.files, paths, strict=True)):
            return paths[0]
    return None


def cached_listing(repo: str, revision: str | None = None) -> tuple[str, tuple[ListedFile, ...]] | None:
    """Commit and files of a repository as far as they are in the cache; no request is made."""
    for snapshot in _snapshots(HubFile(repo, "", revision)):
        found = [path for path in sorted(snapshot.rglob("*")) if path.is_file()]
        files = [
            ListedFile(path.relative_to(snapshot).as_posix(), path.stat().st_size, _content_hash(path))
            for path in found
        ]
        if files:
            return snapshot.name, tuple(files)
    return None


def _snapshots(source: HubFile) -> Iterator[Path]:
    """Folders in which the file is looked for, best first."""
    folder = repository(source.repo)
    snapshots = folder / "snapshots"
    if source.pinned and source.revision is not None:
        yield snapshots / source.revision
    else:
        reference = folder / "refs" / (source.revision or MAIN)
        if reference.is_file():
            yield snapshots / reference.read_text(encoding="ascii", errors="replace").strip()
    if all(part.sha256 is not None for part in source.files) and snapshots.is_dir():
        yield from sorted(path for path in snapshots.iterdir() if path.is_dir())


def _agrees(source: HubFile, path: Path) -> bool:
    if not path.is_file():
        return False
    if source.size is not None and path.stat().st_size != source.size:
        return False
    content = _content_hash(path)
    return source.sha256 is None or content is None or content == source.sha256


def _content_hash(path: Path) -> str | None:
    """The SHA-256 that the file's link names; None where the file is no link or the hub named it otherwise."""
    if not path.is_symlink():
        return None
    name = path.readlink().name
    return name if _SHA256.fullmatch(name) else None


def place(remote: RemoteContent, partial: Path | None = None) -> Path:
    """Make the file findable by its name, and by every user of the cache; returns that path.

    `partial` is its whole, checked content, which becomes the blob; None where the blob is there already. Everything
    is renamed into its place, so that a reader never sees half a file.
    """
    blob, path = blob_path(remote), snapshot_path(remote)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if partial is not None:
            partial.replace(blob)
        if not (path.exists() and path.stat().st_size == remote.size):
            _link(blob, path, new_blob=partial is not None)
        _refer(remote)
    return path


def _link(blob: Path, path: Path, *, new_blob: bool) -> None:
    """Put a link to `blob` at `path`; where links are not to be had, the content itself."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    fresh.unlink(missing_ok=True)
    try:
        if os.environ.get("HF_HUB_DISABLE_SYMLINKS", "").upper() in _TRUE:
            raise OSError(errno.EPERM, "links are disabled")
        fresh.symlink_to(os.path.relpath(blob, path.parent))
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # Nobody has room for a large file twice; but a blob that was there before may have other links to it.
        if new_blob:
            fresh = blob
        else:
            shutil.copyfile(blob, fresh)
    fresh.replace(path)


def _refer(remote: RemoteContent) -> None:
    revision = remote.source.revision or MAIN
    if revision == remote.commit:
        return
    reference = repository(remote.source.repo) / "refs" / revision
    if reference.is_file() and reference.read_text(encoding="ascii", errors="replace") == remote.commit:
        return
    reference.parent.mkdir(parents=True, exist_ok=True)
    fresh = reference.with_name(f"{reference.name}.{os.getpid()}.tmp")
    fresh.write_text(remote.commit, encoding="ascii")
    fresh.replace(reference)
