"""What a catalogue file may say; every complaint names the file, the table and the key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from specchat.catalogue.errors import CatalogueError
from specchat.catalogue.reference import hub_file, is_plain_name
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile, Source
from specchat.speculation.params import SAMPLING, SamplingParams

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
_REPO: Final = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)
_REVISION: Final = re.compile(r"\w[\w./-]*", re.ASCII)
_PACKAGE: Final = ("package", "file", "size", "sha256")
_HUB: Final = ("repo", "revision", "file", "quant", "size", "sha256")
_WHOLE: Final = ("top_k", "repeat_last_n")

Value = TypeVar("Value")


class Table:
    """One table of the file being read. Raises CatalogueError for what is not as it must be."""

    def __init__(self, values: Any, path: Path, name: str) -> None:
        self.where = f"{path}, [{name}]"
        if not isinstance(values, dict):
            raise CatalogueError(f"{self.where}: must be a table.")
        self.name = name
        self.path = path
        self.values: dict[str, Any] = values

    def complain(self, key: str, what: str) -> CatalogueError:
        """The complaint about one key."""
        return CatalogueError(f"{self.where}: {key} {what}.")

    def take(self, key: str, kind: type, what: str) -> Any:
        """The value of `key`, which must be of this kind; None where it isn't given."""
        value = self.values.get(key)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise self.complain(key, f"must be {what}")
        return value

    def needed(self, key: str, value: Value | None) -> Value:
        """The same value; complains where it isn't given."""
        if value is None:
            raise self.complain(key, "is missing")
        return value

    def text(self, key: str, what: str, form: re.Pattern[str] | None = None) -> str | None:
        """A text, of the given form."""
        value: str | None = self.take(key, str, what)
        if value is not None and form is not None and form.fullmatch(value) is None:
            raise self.complain(key, f"must be {what}")
        return value

    def number(self, key: str, what: str, *, least: int = 1) -> int | None:
        """A whole number of at least `least`."""
        value: int | None = self.take(key, int, what)
        if value is not None and value < least:
            raise self.complain(key, f"must be {what}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false where it isn't given."""
        return bool(self.take(key, bool, "true or false"))

    def table(self, key: str) -> Table | None:
        """The table below `key`."""
        value = self.take(key, dict, "a table")
        return None if value is None else Table(value, self.path, f"{self.name}.{key}")

    def allow(self, *keys: str) -> None:
        """Complain about every other key, with the nearest one that there is."""
        for key, value in self.values.items():
            if key in keys:
                continue
            near = difflib.get_close_matches(key, keys, n=1)
            if near:
                hint = f"did you mean {near[0]}?"
            elif isinstance(value, dict):
                # [qwen2.5-coder] without quotes is a table "5-coder" inside a table "qwen2".
                hint = f'a name with a dot is written in quotes, as in ["{self.name}.{key}"].'
            else:
                hint = f"there are: {', '.join(keys)}."
            raise CatalogueError(f"{self.where}: {key} is no key of this table; {hint}")


def read_source(table: Table) -> Source:
    """A model file: `{path}`, `{package, file, size, sha256}` or `{repo, revision, file or quant, size, sha256}`."""
    if "path" in table.values:
        table.allow("path")
        return LocalFile(Path(table.take("path", str, "a path")).expanduser())
    if "package" in table.values:
        return _package_file(table)
    if "repo" in table.values:
        return _hub_source(table)
    table.allow("path", *dict.fromkeys(_PACKAGE + _HUB))
    raise CatalogueError(f"{table.where}: must name a path, a package or a repo.")


def read_draft(table: Table) -> Source | CutFromTarget:
    """A draft: a file like a target, or `{drop_layers}`."""
    if "drop_layers" not in table.values:
        return read_source(table)
    table.allow("drop_layers")
    layers = table.take("drop_layers", list, "a list of layer numbers")
    if not layers or not all(type(layer) is int and layer >= 0 for layer in layers):
        raise table.complain("drop_layers", "must be a list of layer numbers")
    return CutFromTarget(tuple(layers))


def read_sampling(table: Table | None) -> Mapping[str, float]:
    """Defaults of the sampler chain, by the names of its settings."""
    if table is None:
        return {}
    table.allow(*SAMPLING)
    for key, value in table.values.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise table.complain(key, "must be a number")
        if key in _WHOLE and not isinstance(value, int):
            raise table.complain(key, "must be a whole number")
    try:
        SamplingParams(**table.values)
    except ValueError as error:
        raise CatalogueError(f"{table.where}: {error}") from None
    return dict(table.values)


def _package_file(table: Table) -> PackageFile:
    table.allow(*_PACKAGE)
    return PackageFile(
        package=table.needed("package", table.text("package", "a package name")),
        file=_file_name(table),
        size=table.needed("size", table.number("size", "a number of bytes")),
        sha256=table.needed("sha256", _sha256(table)),
    )


def _hub_source(table: Table) -> HubFile | HubQuery:
    table.allow(*_HUB)
    repo = table.needed("repo", table.text("repo", "a repository of the hub, as in user/name", _REPO))
    revision = table.text("revision", "a commit, a branch or a tag", _REVISION)
    quant = table.text("quant", "a quantisation, as in Q4_K_M")
    if quant is not None:
        pins = [key for key in ("file", "size", "sha256") if key in table.values]
        if pins:
            raise table.complain(pins[0], "pins one file, but quant leaves the choice to the hub's list")
        return HubQuery(repo, revision, quant)
    file = _file_name(table)
    if not file.lower().endswith(".gguf"):
        raise table.complain("file", "must be a .gguf file")
    size = table.number("size", "a number of bytes")
    return hub_file(repo, file, revision, size=size, sha256=_sha256(table))


def _file_name(table: Table) -> str:
    file = table.needed("file", table.text("file", "a file name"))
    if not is_plain_name(file):
        raise table.complain("file", "must be a file name")
    return file


def _sha256(table: Table) -> str | None:
    digest = table.text("sha256", "a SHA-256 in hexadecimal", _SHA256)
    return None if digest is None else digest.lower()
