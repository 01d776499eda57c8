"""The catalogue: which models there are, their drafts and their defaults."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import platformdirs

from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
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
    rank_without_head: int | None = None
    """Its place where trained heads can't be used; None: `rank`."""
    drafter: HeadKind | None = None
    """The kind of the head that was trained for this model; its file is `draft`, None where it is in the target's."""

    @property
    def drafted_by(self) -> str:
        """What drafts for it, in a word or two."""
        if self.drafter is HeadKind.EAGLE:
            return "EAGLE-3 head"
        if self.drafter is HeadKind.MEDUSA:
            return "Medusa heads"
        if self.drafter is HeadKind.DFLASH:
            return "DFlash head"
        if self.drafter is HeadKind.MTP:
            return "MTP head" if self.draft is not None else "MTP head in the file"
        if isinstance(self.draft, CutFromTarget):
            return "own layers"
        return "text only" if self.draft is None else "draft model"

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

    def by_preference(self, *, heads: bool = False) -> list[Entry]:
        """The entries that may be chosen for the user, best first; `heads`: llama.cpp can draft with trained heads."""
        places = {entry.id: entry.rank for entry in self.entries.values() if entry.rank is not None}
        if not heads:
            others = {name: self.entries[name].rank_without_head for name in places}
            places |= {name: rank for name, rank in others.items() if rank is not None}
        return [self.entries[name] for name in sorted(places, key=lambda name: (places[name], name))]


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
    "gated", "note", "rank", "rank_without_head", "drafter",
)  # fmt: skip


def _entry(table: Table) -> Entry:
    table.allow(*_KEYS)
    _check_id(table)
    target, drafter = table.needed("target", table.table("target")), _drafter(table)
    rank = table.number("rank", "a whole number", least=0)
    return Entry(
        id=table.name,
        name=table.text("name", "a text") or table.name,
        target=read_source(target),
        draft=_draft(table, drafter),
        method=table.text("method", "the name of a method"),
        context=table.number("context", "a number of tokens"),
        sampling=read_sampling(table.table("sampling")),
        sampling_without_thinking=read_sampling(table.table("sampling_without_thinking")),
        thinking=_thinking(table),
        license=table.text("license", "a text") or "",
        gated=table.flag("gated"),
        note=table.text("note", "a text") or "",
        rank=rank,
        rank_without_head=_rank_without_head(table, rank, drafter),
        drafter=drafter,
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


def _drafter(table: Table) -> HeadKind | None:
    named, kinds = table.text("drafter", "the kind of a trained head"), [kind.value for kind in HeadKind]
    if named is not None and named not in kinds:
        raise table.complain("drafter", f"must be {', '.join(kinds[:-1])} or {kinds[-1]}")
    return HeadKind(named) if named else None


def _draft(table: Table, drafter: HeadKind | None) -> Source | CutFromTarget | None:
    inner = table.table("draft")
    draft = None if inner is None else read_draft(inner)
    if drafter is not None and isinstance(draft, CutFromTarget):
        raise table.complain("draft", f"must be the file of the {drafter.value} head that drafter names")
    if drafter not in (None, HeadKind.MTP) and draft is None:
        raise table.complain("draft", f"is missing: {drafter} names a head in a file of its own")
    return draft


def _rank_without_head(table: Table, rank: int | None, drafter: HeadKind | None) -> int | None:
    without = table.number("rank_without_head", "a whole number", least=0)
    if without is not None and (rank is None or drafter is None):
        raise table.complain("rank_without_head", "is only for a model with a rank and a drafter")
    return without
