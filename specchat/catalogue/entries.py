"""The catalogue: which models there are, their drafts and their defaults."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import platformdirs

from specchat.catalogue.errors import CatalogueError, ModelUnavailable

_FILE_NAME: Final = "models.toml"


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A model file inside an installed Python package."""

    package: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A model file at a path of this machine."""

    path: Path


@dataclass(frozen=True, slots=True)
class CutFromTarget:
    """A draft made of the target itself, without some of its layers."""

    drop_layers: tuple[int, ...]


Source = PackageFile | LocalFile


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalogue."""

    id: str
    name: str
    target: Source
    draft: Source | CutFromTarget | None = None
    method: str | None = None
    context: int | None = None
    sampling: Mapping[str, float] = field(default_factory=dict)
    license: str = ""


class _Table:
    """One table of the file being read; every complaint names file, table and key."""

    def __init__(self, values: Any, path: Path, name: str) -> None:
        self._where = f"{path}, [{name}]"
        if not isinstance(values, dict):
            raise CatalogueError(f"{self._where}: must be a table.")
        self.name = name
        self.path = path
        self.values: dict[str, Any] = values

    def complain(self, key: str, what: str) -> CatalogueError:
        return CatalogueError(f"{self._where}: {key} {what}.")

    def take(self, key: str, kind: type, what: str, *, required: bool = False) -> Any:
        value = self.values.get(key)
        if value is None:
            if required:
                raise self.complain(key, "is missing")
            return None
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.complain(key, f"must be {what}")
        return value

    def table(self, key: str, *, required: bool = False) -> _Table | None:
        value = self.take(key, dict, "a table", required=required)
        return None if value is None else _Table(value, self.path, f"{self.name}.{key}")

    def allow(self, *keys: str) -> None:
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                raise self.complain(key, "is no key of this table" + (f"; did you mean {near[0]}?" if near else ""))


def _source(table: _Table) -> Source:
    if "path" in table.values:
        table.allow("path")
        return LocalFile(Path(table.take("path", str, "a path")).expanduser())
    table.allow("package", "file", "size", "sha256")
    return PackageFile(
        package=table.take("package", str, "a package name", required=True),
        file=table.take("file", str, "a file name", required=True),
        size=table.take("size", int, "a number of bytes", required=True),
        sha256=table.take("sha256", str, "a SHA-256 in hexadecimal", required=True),
    )


def _draft(table: _Table | None) -> Source | CutFromTarget | None:
    if table is None:
        return None
    if "drop_layers" not in table.values:
        return _source(table)
    table.allow("drop_layers")
    layers = table.take("drop_layers", list, "a list of layer numbers")
    if not layers or not all(isinstance(layer, int) and layer >= 0 for layer in layers):
        raise table.complain("drop_layers", "must be a list of layer numbers")
    return CutFromTarget(tuple(layers))


def _entry(table: _Table) -> Entry:
    table.allow("name", "target", "draft", "method", "context", "sampling", "license")
    target = table.table("target", required=True)
    assert target is not None
    sampling = table.table("sampling")
    return Entry(
        id=table.name,
        name=table.take("name", str, "a text") or table.name,
        target=_source(target),
        draft=_draft(table.table("draft")),
        method=table.take("method", str, "the name of a method"),
        context=table.take("context", int, "a number of tokens"),
        sampling=_numbers(sampling) if sampling else {},
        license=table.take("license", str, "a text") or "",
    )


def _numbers(table: _Table) -> dict[str, float]:
    for key, value in table.values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise table.complain(key, "must be a number")
    return dict(table.values)


def _read(path: Path) -> dict[str, Entry]:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise CatalogueError(f"{path} can't be read: {error.strerror}.") from None
    return {name: _entry(_Table(values, path, name)) for name, values in tables.items()}


def packaged_path() -> Path:
    """The catalogue that comes with the program: inside the package, or beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / _FILE_NAME
    # An editable install does not copy files into the package.
    return installed if installed.exists() else package.parent / _FILE_NAME


def user_path() -> Path:
    """The user's own catalogue."""
    return Path(platformdirs.user_config_path("specchat", appauthor=False)) / _FILE_NAME


class Catalogue:
    """All known models: the packaged ones, overlaid by the user's own.

    Raises CatalogueError for a file that can't be read as written.
    """

    def __init__(self, *paths: Path) -> None:
        self.entries: dict[str, Entry] = {}
        for path in paths or (packaged_path(), user_path()):
            if path.exists() or path == packaged_path():
                self.entries.update(_read(path))

    def find(self, name: str) -> Entry:
        """The entry called `name`, or one for the .gguf file at that path; raises ModelUnavailable."""
        entry = self.entries.get(name)
        if entry is not None:
            return entry
        path = Path(name).expanduser()
        if path.suffix == ".gguf" or "/" in name or path.exists():
            return Entry(id=path.stem or name, name=path.name, target=LocalFile(path))
        near = difflib.get_close_matches(name, self.entries, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(sorted(self.entries))}."
        raise ModelUnavailable(f"There is no model {name!r} in the catalogue, and no such file.{hint}")
