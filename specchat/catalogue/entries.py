"""The catalogue: which models there are, their drafts and their defaults."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import platformdirs

from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.reference import hub_query, is_reference, local_file
from specchat.catalogue.schema import Table, read_draft, read_sampling, read_source
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile, Source

__all__ = [
    "Catalogue",
    "CutFromTarget",
    "Entry",
    "HeadKind",
    "HubFile",
    "HubQuery",
    "LocalFile",
    "PackageFile",
    "Source",
    "Thinking",
    "packaged_path",
    "user_path",
]

_FILE_NAME: Final = "models.toml"
_ID: Final = re.compile(r"\w[\w.-]*", re.ASCII)
_RESERVED: Final = "none"
_INSTEAD_OF_A_HEAD: Final = "suffix"


class HeadKind(StrEnum):
    """Kinds of draft head that a model may come with, as named in the catalogue."""

    MTP = "mtp"
    EAGLE = "eagle"


_HEAD_NAMES: Final = {HeadKind.MTP: "an MTP head", HeadKind.EAGLE: "an EAGLE-3 head"}


@dataclass(frozen=True, slots=True)
class Thinking:
    """Whether a model reasons before it answers, and what changes that."""

    by_default: bool
    switch: str | None = None
    """The template's variable, or the words in a message, that turn it on or off; None: it can't be turned."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One model of the catalogue."""

    id: str
    name: str
    target: Source
    draft: Source | CutFromTarget | None = None
    method: str | None = None
    context: int | None = None
    """Tokens of context unless the user says otherwise."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    sampling_without_thinking: Mapping[str, float] = field(default_factory=dict)
    thinking: Thinking | None = None
    """None where it isn't known."""
    license: str = ""
    gated: bool = False
    """Whether the hub wants its terms accepted, and a token."""
    note: str = ""
    """What is uncertain about this entry, in sentences for the user."""
    rank: int | None = None
    """Its place when a model is chosen for the user, lowest first; None is never chosen unasked."""
    drafter: HeadKind | None = None
    """The draft head made for this model."""
    head: Source | None = None
    """The file of that head; None where it is inside the target's."""

    @property
    def fallback(self) -> str | None:
        """The sentence that says so, where the model's own draft head can't be used yet."""
        if self.drafter is None:
            return None
        return (
            f"{self.name} comes with {_HEAD_NAMES[self.drafter]}, which specchat can't draft with yet. "
            f"It drafts by the method {self.method or _INSTEAD_OF_A_HEAD} instead."
        )

    @property
    def hub_sources(self) -> tuple[HubFile | HubQuery, ...]:
        """What must be on this machine, and comes from the hub: the target, then the draft."""
        return tuple(source for source in (self.target, self.draft) if isinstance(source, HubFile | HubQuery))

    def sampling_when(self, thinking: bool | None = None) -> Mapping[str, float]:
        """The sampler's defaults with thinking on or off; None stands for the model's own habit."""
        thinks = thinking if thinking is not None else self.thinking is None or self.thinking.by_default
        return self.sampling if thinks or not self.sampling_without_thinking else self.sampling_without_thinking


class Catalogue:
    """All known models: the packaged ones, overlaid by the user's own, which replace whole tables.

    Raises CatalogueError for a file that can't be read as written.
    """

    def __init__(self, *paths: Path) -> None:
        self.entries: dict[str, Entry] = {}
        for path in paths or (packaged_path(), user_path()):
            if path.exists() or path == packaged_path():
                self.entries.update(_read(path))

    def find(self, name: str) -> Entry:
        """The entry called `name`, or one for the repository or .gguf file it names; raises ModelUnavailable."""
        entry = self.entries.get(name)
        if entry is not None:
            return entry
        if is_reference(name):
            return Entry(id=name, name=name.removeprefix("hf:"), target=hub_query(name))
        path = Path(name).expanduser()
        if path.suffix == ".gguf" or "/" in name or path.exists():
            return Entry(id=path.stem or name, name=path.name, target=local_file(path))
        near = difflib.get_close_matches(name, self.entries, n=1)
        hint = f" Did you mean {near[0]}?" if near else f" There are: {', '.join(sorted(self.entries))}."
        raise ModelUnavailable(f"There is no model {name!r} in the catalogue, and no such file.{hint}")

    def by_preference(self) -> list[Entry]:
        """The entries that may be chosen for the user, best first."""
        ranked = [entry for entry in self.entries.values() if entry.rank is not None]
        return sorted(ranked, key=lambda entry: (entry.rank, entry.id))


def packaged_path() -> Path:
    """The catalogue that comes with the program: inside the package, or beside it in a source tree."""
    package = Path(__file__).resolve().parents[1]
    installed = package / _FILE_NAME
    # An editable install does not copy files into the package.
    return installed if installed.exists() else package.parent / _FILE_NAME


def user_path() -> Path:
    """The user's own catalogue."""
    return Path(platformdirs.user_config_path("specchat", appauthor=False)) / _FILE_NAME


def _read(path: Path) -> dict[str, Entry]:
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{path} is not valid TOML: {error}.") from None
    except UnicodeDecodeError:
        raise CatalogueError(f"{path} is not valid TOML: it must be a text in UTF-8.") from None
    except OSError as error:
        raise CatalogueError(f"{path} can't be read: {error.strerror}.") from None
    return {name: _entry(Table(values, path, name)) for name, values in tables.items()}


_KEYS: Final = (
    "name", "target", "draft", "method", "context", "sampling", "sampling_without_thinking", "thinking", "license",
    "gated", "note", "rank", "drafter", "head",
)  # fmt: skip


def _entry(table: Table) -> Entry:
    table.allow(*_KEYS)
    _check_id(table)
    target, draft = table.needed("target", table.table("target")), table.table("draft")
    drafter, head = _head(table)
    return Entry(
        id=table.name,
        name=table.text("name", "a text") or table.name,
        target=read_source(target),
        draft=None if draft is None else read_draft(draft),
        method=table.text("method", "the name of a method") or (_INSTEAD_OF_A_HEAD if drafter else None),
        context=table.number("context", "a number of tokens"),
        sampling=read_sampling(table.table("sampling")),
        sampling_without_thinking=read_sampling(table.table("sampling_without_thinking")),
        thinking=_thinking(table),
        license=table.text("license", "a text") or "",
        gated=table.flag("gated"),
        note=table.text("note", "a text") or "",
        rank=table.number("rank", "a whole number", least=0),
        drafter=drafter,
        head=head,
    )


def _check_id(table: Table) -> None:
    # Anything else on the command line is a path, a repository, or no draft at all.
    if _ID.fullmatch(table.name) is None or table.name == _RESERVED or table.name.endswith(".gguf"):
        raise CatalogueError(
            f"{table.where}: {table.name!r} can't be the name of a model; it is made of letters, digits, dots and "
            f"hyphens, and is neither {_RESERVED} nor a .gguf file."
        )


def _thinking(table: Table) -> Thinking | None:
    value = table.values.get("thinking")
    if value is None:
        return None
    if isinstance(value, bool):
        return Thinking(value)
    if not isinstance(value, dict):
        raise table.complain("thinking", "must be true, false, or a table with default and switch")
    inner = Table(value, table.path, f"{table.name}.thinking")
    inner.allow("default", "switch")
    by_default: bool = inner.needed("default", inner.take("default", bool, "true or false"))
    return Thinking(by_default, inner.needed("switch", inner.text("switch", "a template variable, or words")))


def _head(table: Table) -> tuple[HeadKind | None, Source | None]:
    named, head = table.text("drafter", "the kind of a draft head"), table.table("head")
    kinds = [kind.value for kind in HeadKind]
    if named is None and head is not None:
        raise table.complain("drafter", f"is missing: it says of which kind head is, {' or '.join(kinds)}")
    if named is not None and named not in kinds:
        raise table.complain("drafter", f"must be {' or '.join(kinds)}")
    return HeadKind(named) if named else None, None if head is None else read_source(head)
