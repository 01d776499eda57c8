"""Which files go when a model is deleted, and which stay since another model needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from specchat.catalogue.cache import cached_listing, cached_path
from specchat.catalogue.entries import Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.inventory import CachedFile, cached_files, discard, remove
from specchat.catalogue.locate import is_here
from specchat.catalogue.reference import resolve
from specchat.catalogue.sources import HubFile, HubQuery
from specchat.chat.models import Models


@dataclass(frozen=True, slots=True)
class Removal:
    """What deleting a model would do."""

    models: tuple[HubFile, ...]
    """Files of the cache that go."""
    unfinished: tuple[CachedFile, ...]
    """Interrupted downloads that go."""
    kept: Mapping[str, tuple[str, ...]]
    """Files that stay, each with the ids of the models that use it."""

    @property
    def names(self) -> tuple[str, ...]:
        """What goes, in words."""
        whole = (f"{PurePosixPath(file.file).name}{_parts(file)}" for file in self.models)
        return (*whole, *(f"an unfinished download of {file.repo}" for file in self.unfinished))

    @property
    def size(self) -> int:
        """Bytes of what goes."""
        found = [(file, cached_path(file)) for file in self.models]
        whole = sum(part.stat().st_size for file, path in found if path is not None for part in _all(file, path))
        return whole + sum(file.size for file in self.unfinished)

    def carry_out(self) -> int:
        """Delete it; returns the bytes freed. Raises ModelUnavailable, and CacheNotWritable where that fails."""
        return sum(map(remove, self.models)) + sum(discard(file.path) for file in self.unfinished if file.path.exists())


def _parts(file: HubFile) -> str:
    return f" in {len(file.files)} parts" if file.parts else ""


def _all(file: HubFile, first: Path) -> Iterator[Path]:
    return (first.with_name(PurePosixPath(part.file).name) for part in file.files)


def removal_of(entry: Entry, models: Models) -> Removal:
    """What goes with `entry`: its target, the draft where no other model here uses it, and unfinished downloads.

    Raises ModelUnavailable where nothing of it is here, or where it did not come from a hub.
    """
    if not entry.hub_sources:
        raise ModelUnavailable(f"{entry.name} did not come from a hub, so it is not specchat's to delete.")
    going, kept = [], {}
    for source in entry.hub_sources:
        file = in_cache(source)
        if file is None:
            continue
        users = () if source is entry.target else _users(file, entry, models)
        if users:
            kept[PurePosixPath(file.file).name] = users
        else:
            going.append(file)
    unfinished = tuple(found for source in entry.hub_sources for found in _unfinished(source))
    if not going and not unfinished:
        stays = "".join(f" {file} is here, but {' and '.join(users)} needs it." for file, users in kept.items())
        raise ModelUnavailable(f"Nothing of {entry.name} is on this machine to be deleted.{stays}")
    return Removal(tuple(going), unfinished, kept)


def in_cache(source: HubFile | HubQuery) -> HubFile | None:
    """The file of the cache that `source` means; None where it isn't there."""
    if isinstance(source, HubFile):
        return source if cached_path(source) is not None else None
    listed = cached_listing(source.repo, source.revision)
    if listed is None:
        return None
    try:
        return resolve(source, listed[1], listed[0])
    except ModelUnavailable:
        return None


def _users(file: HubFile, entry: Entry, models: Models) -> tuple[str, ...]:
    """The other models here, by id, that load `file`."""
    others = (other for other in models.catalogue.entries.values() if other.id != entry.id and is_here(other.target))
    return tuple(other.id for other in others if _loads(other, file))


def _loads(entry: Entry, file: HubFile) -> bool:
    found = (in_cache(source) for source in entry.hub_sources)
    return any(other is not None and (other.repo, other.file) == (file.repo, file.file) for other in found)


def _unfinished(source: HubFile | HubQuery) -> list[CachedFile]:
    """What is left of interrupted downloads: of this file where its hash is pinned, else of its repository."""
    pinned = {part.sha256 for part in source.files} if isinstance(source, HubFile) else {None}
    left = [file for file in cached_files() if file.commit is None and file.repo == source.repo]
    if None in pinned:
        # The hub's name for the content is not known here: whatever is unfinished of that repository is meant.
        return left
    return [file for file in left if file.file.split(".", 1)[0] in pinned]
