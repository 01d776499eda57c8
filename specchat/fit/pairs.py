"""Which files an entry of the catalogue would load, or their dimensions where they are not here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.locate import locate
from specchat.catalogue.sources import CutFromTarget, HubFile, LocalFile, PackageFile
from specchat.catalogue.sources import Source as FileSource
from specchat.drafters.layer_skip import cut_draft
from specchat.fit.known_shapes import known_shape
from specchat.fit.shape import Shape

NO_DRAFT: Final = "none"

Source = Path | Shape
"""A model's file (a header stretched to the file's size will do), or the dimensions of one that is not here."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and its draft, or none."""

    id: str
    target: Source
    draft: Source | None = None


def pair_of(entry: Entry, catalogue: Catalogue, draft: str | None = None) -> Pair:
    """The target of `entry` with its own draft, with that of the entry `draft`, or with none (NO_DRAFT).

    Raises ModelUnavailable for a file that is not here and whose dimensions are unknown; OSError and LlamaError where a
    draft is to be cut from the target and can't be.
    """
    chosen: FileSource | CutFromTarget | None = entry.draft
    if draft == NO_DRAFT:
        chosen = None
    elif draft is not None:
        chosen = catalogue.find(draft).target
    target = source_of(entry.target, entry.id)
    if isinstance(chosen, CutFromTarget):
        return Pair(entry.id, target, cut_draft(target, chosen.drop_layers) if isinstance(target, Path) else None)
    return Pair(entry.id, target, None if chosen is None else source_of(chosen, draft or entry.id))


def source_of(file: FileSource, model: str) -> Source:
    """The file where it is here, else its dimensions; raises ModelUnavailable, with how to get it."""
    try:
        return locate(file, model)
    except ModelUnavailable:
        shape = _known(file)
        if shape is None:
            raise
        return shape


def _known(file: FileSource) -> Shape | None:
    if isinstance(file, LocalFile):
        return None
    if isinstance(file, HubFile | PackageFile):
        by_hash = known_shape(file.sha256) if file.sha256 else None
        return by_hash or known_shape(PurePosixPath(file.file).name)
    return known_shape(PurePosixPath(file.wanted).name) if file.wanted else None


def others_than(entry: Entry, catalogue: Catalogue) -> Iterator[Pair]:
    """The models that may be proposed instead, in the catalogue's order, each as it would be loaded."""
    ranked = [(other.rank, other) for other in catalogue.entries.values() if other.rank is not None]
    for _, other in sorted(ranked, key=lambda place: place[0]):
        if other.id == entry.id or isinstance(other.draft, CutFromTarget):
            continue
        try:
            yield pair_of(other, catalogue)
        except ModelUnavailable:
            # Its dimensions are not known here: it can't be proposed.
            continue
