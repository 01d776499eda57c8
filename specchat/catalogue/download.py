"""From sources to checked files in the cache: first what it would take, then the fetching."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specchat.catalogue.cache import (
    DiskFull,
    blob_path,
    cache_root,
    cached_path,
    free_bytes,
    lock_path,
    partial_path,
    place,
    snapshot_path,
    write_failure,
    writing,
    wrong_path,
)
from specchat.catalogue.hub import Hub, RemoteContent
from specchat.catalogue.hub_errors import HubError, Problem
from specchat.catalogue.progress import Meter, Progress
from specchat.catalogue.sources import HubFile
from specchat.catalogue.transfer import transfer

if TYPE_CHECKING:
    from filelock import BaseFileLock

SPARE_BYTES: Final = 64 << 20
"""Left free on the disk beside the download, so that nothing else on the machine fails for it."""
_TICK_S: Final = 0.1


class WrongContent(HubError):
    """A download whose content isn't what was promised; the message says where it was set aside."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file to fetch."""

    remote: RemoteContent
    held: int
    """Bytes that an earlier run left; all of them where only the file's name is missing in the cache."""

    @property
    def size(self) -> int:
        """Of the whole file, in bytes."""
        return self.remote.size


@dataclass(frozen=True, slots=True)
class Plan:
    """What a download would do."""

    cached: tuple[HubFile, ...]
    """Files that are here already."""
    files: tuple[PlannedFile, ...]
    """Files to fetch, in order."""
    destination: Path
    free: int
    """Bytes free on the destination's disk now."""

    @property
    def size(self) -> int:
        """Of all files to fetch, in bytes."""
        return sum(file.size for file in self.files)

    @property
    def to_fetch(self) -> int:
        """Bytes that still have to come over the network."""
        return sum(file.size - file.held for file in self.files)

    @property
    def fits(self) -> bool:
        """Whether the disk has room."""
        return self.to_fetch == 0 or self.to_fetch + SPARE_BYTES <= self.free


def plan(sources: Iterable[HubFile], hub: Hub) -> Plan:
    """What is missing of these models, with all their parts; nothing is written.

    A model in the cache under a pinned commit or SHA-256 costs no request; of any other the hub is asked whether it
    has changed. Raises HubError, also where what the hub has is not what a source pins.
    """
    cached: list[HubFile] = []
    files: dict[Path, PlannedFile] = {}
    for source in dict.fromkeys(sources):
        settled = hub.is_offline or all(part.pinned or part.sha256 is not None for part in source.files)
        if settled and cached_path(source) is not None:
            cached.extend(source.files)
            continue
        for remote in _asked(source, hub):
            path = snapshot_path(remote)
            if path.exists() and path.stat().st_size == remote.size and cached_path(_alone(remote.source)) == path:
                cached.append(remote.source)
            else:
                files.setdefault(path, PlannedFile(remote, _held(remote)))
    return Plan(tuple(cached), tuple(files.values()), cache_root(), free_bytes(cache_root()))


def _asked(source: HubFile, hub: Hub) -> Iterator[RemoteContent]:
    first = hub.metadata(_alone(source))
    yield check_pin(first)
    for part in source.parts:
        # All parts from one commit, even if the branch moves on in between.
        remote = hub.metadata(replace(part, revision=first.commit))
        yield check_pin(replace(remote, source=part))


def _alone(source: HubFile) -> HubFile:
    return replace(source, parts=())


def _held(remote: RemoteContent) -> int:
    if _whole_blob(remote):
        return remote.size
    partial = partial_path(remote)
    return min(partial.stat().st_size, remote.size) if partial.is_file() else 0


def _whole_blob(remote: RemoteContent) -> bool:
    blob = blob_path(remote)
    return blob.is_file() and blob.stat().st_size == remote.size


def check_pin(remote: RemoteContent) -> RemoteContent:
    """`remote` itself; raises HubError where the hub has something else there than its source pins."""
    source, differences = remote.source, []
    if source.size is not None and source.size != remote.size:
        differences.append(f"{remote.size:,} bytes instead of {source.size:,}")
    if source.sha256 is not None and remote.sha256 != source.sha256:
        differences.append(f"the SHA-256 {remote.sha256} instead of {source.sha256}")
    if source.pinned and remote.commit != source.revision:
        differences.append(f"the commit {remote.commit} instead of {source.revision}")
    if differences:
        raise HubError(
            f"{source.file} in {source.repo} is not what the catalogue expects: the hub has "
            f"{' and '.join(differences)}. Nothing was downloaded and nothing deleted. If the authors have replaced "
            f"the file and you trust it, use hf:{source.repo}:{source.file}, or change the entry in your models.toml.",
            Problem.PIN,
        )
    return remote


def fetch(wanted: Plan, hub: Hub, show: Callable[[Progress], None] = lambda _: None) -> tuple[Path, ...]:
    """Fetch the files of a plan, check each, and put it into the cache; returns their paths there, in order.

    `show` gets the progress, at most ten times a second. What arrives is kept whatever happens, and a later call goes
    on from there. Raises DiskFull, CacheNotWritable, HubError (WrongContent for a wrong download) and Cancelled.
    """
    _check_disk(wanted)
    meter = Meter(((file.remote.source.file, file.size, file.held) for file in wanted.files), show)
    paths = []
    for number, file in enumerate(wanted.files):
        meter.begin(number)
        paths.append(_fetch_one(file.remote, hub, meter))
        meter.end()
    return tuple(paths)


def _check_disk(wanted: Plan) -> None:
    held = sum(_held(file.remote) for file in wanted.files)
    needed, free = wanted.size - held, free_bytes(wanted.destination)
    if needed and needed + SPARE_BYTES > free:
        raise DiskFull(
            f"The download needs {needed:,} bytes in {wanted.destination} and {SPARE_BYTES:,} to spare, but only "
            f"{free:,} are free. Free some, or set HF_HOME to a folder on a larger disk."
        )


def _fetch_one(remote: RemoteContent, hub: Hub, meter: Meter) -> Path:
    with _locked(remote, hub, meter):
        if _whole_blob(remote):
            return place(remote)
        partial = partial_path(remote)
        digest = transfer(hub, remote, partial, meter.count)
        _check_content(hub, remote, digest, partial)
        return place(remote, partial)


def _check_content(hub: Hub, remote: RemoteContent, digest: str, partial: Path) -> None:
    expected = remote.sha256 or remote.git_id
    if digest == expected:
        return
    if expected is None:
        hub.say(f"The hub names no checksum of {remote.source.file}; only its size was compared.")
        return
    aside = wrong_path(remote)
    with writing(aside):
        partial.replace(aside)
    raise WrongContent(
        f"{remote.source.file} has arrived damaged: its hash is {digest}, but the hub promises {expected}. It was set "
        f"aside as {aside}; you can delete it. Start again to download it anew; if that fails too, a proxy may be "
        "changing the data.",
        Problem.CONTENT,
    )


@contextlib.contextmanager
def _locked(remote: RemoteContent, hub: Hub, meter: Meter) -> Iterator[None]:
    """Hold the file's lock, so that no other process fetches the same content; wait where one does, and say so."""
    path = lock_path(remote)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        blob_path(remote).parent.mkdir(parents=True, exist_ok=True)
    lock = _acquired(path, remote, hub, meter)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.release()


def _acquired(path: Path, remote: RemoteContent, hub: Hub, meter: Meter) -> BaseFileLock:
    from filelock import FileLock, SoftFileLock, Timeout

    # The mode lets several users share a cache, as huggingface_hub's own locks do.
    lock: BaseFileLock = FileLock(path, mode=0o664)
    said = False
    while True:
        try:
            lock.acquire(timeout=_TICK_S)
        except Timeout:
            if not said:
                hub.say(f"Another process is downloading {remote.source.file}; waiting for it.")
                said = True
            hub.check_cancelled()
            meter.waiting()
        except NotImplementedError:
            # File systems without locks; a lock by existence has to do.
            lock = SoftFileLock(path, mode=0o664)
        except OSError as error:
            raise write_failure(error, path) from error
        else:
            return lock
