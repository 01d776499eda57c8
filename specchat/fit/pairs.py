"""Which files an entry of the catalogue would load, or their dimensions where they are not here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
from specchat.catalogue.locate import is_here, locate
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile
from specchat.catalogue.sources import Source as FileSource
from specchat.drafters.heads.pairing import whole_header
from specchat.drafters.layer_skip import cut_draft
from specchat.fit.dimensions import Shape, ShapeUnknown
from specchat.fit.head_shapes import ASSISTED, supposed_assistant, supposed_eagle
from specchat.fit.known_shapes import known_shape
from specchat.fit.shape import shape_of
from specchat.llama.errors import ModelUnusable

NO_DRAFT: Final = "none"

Source = Path | Shape
"""A model's file (a header stretched to the file's size will do), or the dimensions of one that is not here."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and its draft, or none."""

    id: str
    target: Source
    draft: Source | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """How to learn of files that are not here."""

    header: Callable[[HubFile | HubQuery], Path]
    """Fetches a file's header and stretches it to the file's size; raises ModelUnavailable, ModelUnusable, OSError."""
    exactly: bool
    """Whether the header is wanted even where the dimensions are known."""
    say: Callable[[str], None]
    """Hears why dimensions had to do."""


def pair_of(
    entry: Entry, catalogue: Catalogue, draft: str | None = None, *, elsewhere: Elsewhere | None = None
) -> Pair:
    """The target of `entry` with its own draft, with that of the entry `draft`, or with none (NO_DRAFT).

    Without `elsewhere` nothing is fetched. Raises ModelUnavailable for a file that is not here and whose dimensions are
    unknown; OSError and LlamaError where a draft is to be cut from the target and can't be.
    """
    chosen: FileSource | CutFromTarget | None = entry.draft
    if draft == NO_DRAFT:
        chosen = None
    elif draft is not None:
        chosen = catalogue.find(draft).target
    target = source_of(entry.target, entry.id, elsewhere)
    if elsewhere is not None and isinstance(target, Shape):
        # The pair is estimated in any case: the hub need not be asked again.
        elsewhere = replace(elsewhere, exactly=False)
    if isinstance(chosen, CutFromTarget):
        # From a header alone nothing can be cut.
        if not isinstance(target, Path) or not is_here(entry.target):
            return Pair(entry.id, target)
        return Pair(entry.id, target, cut_draft(target, chosen.drop_layers))
    if chosen is None:
        return Pair(entry.id, target)
    try:
        return Pair(entry.id, target, source_of(chosen, draft or entry.id, elsewhere))
    except ModelUnavailable:
        head = _supposed_head(entry, target) if draft is None else None
        if head is None:
            raise
        return Pair(entry.id, target, head)


def _supposed_head(entry: Entry, target: Source) -> Shape | None:
    """The head of `entry`, whose header is not at hand, by the size of its file; None where that isn't known either."""
    size = entry.draft.total_size if isinstance(entry.draft, HubFile) else None
    if entry.drafter not in (HeadKind.EAGLE, HeadKind.MTP) or size is None:
        return None
    try:
        shape = shape_here(target)
    except ShapeUnknown:
        return None
    if entry.drafter is HeadKind.EAGLE:
        return supposed_eagle(shape, size)
    # Files of MTP layers alone hold few or many matrices besides: only of assistants is their shape supposed.
    return supposed_assistant(shape, size) if shape.architecture == ASSISTED else None


def source_of(file: FileSource, model: str, elsewhere: Elsewhere | None = None) -> Source:
    """The file where it is here, else its header or its dimensions; raises ModelUnavailable, with how to get it."""
    try:
        return locate(file, model)
    except ModelUnavailable:
        known = _known(file)
        if elsewhere is not None and isinstance(file, HubFile | HubQuery) and (known is None or elsewhere.exactly):
            return _header(file, known, elsewhere)
        if known is None:
            raise
        return known


def _header(file: HubFile | HubQuery, known: Shape | None, elsewhere: Elsewhere) -> Source:
    try:
        return elsewhere.header(file)
    except (ModelUnavailable, ModelUnusable, OSError) as error:
        if known is None:
            raise
        elsewhere.say(f"{error} What follows is an estimate, from what is known of the model.")
        return known


def _known(file: FileSource) -> Shape | None:
    if isinstance(file, LocalFile):
        return None
    if isinstance(file, HubFile | PackageFile):
        by_hash = known_shape(file.sha256) if file.sha256 else None
        return by_hash or known_shape(PurePosixPath(file.file).name)
    return known_shape(PurePosixPath(file.wanted).name) if file.wanted else None


def others_than(entry: Entry, catalogue: Catalogue, *, heads: bool = False) -> Iterator[Pair]:
    """The models that may be proposed instead, in the catalogue's order, each as it would be loaded.

    `heads`: llama.cpp can draft with trained heads.
    """
    for other in catalogue.by_preference(heads=heads):
        if other.id == entry.id or isinstance(other.draft, CutFromTarget):
            continue
        try:
            yield pair_of(other, catalogue)
        except ModelUnavailable:
            # Its dimensions are not known here: it can't be proposed.
            continue


def shape_here(source: Path | Shape) -> Shape:
    """The dimensions of the model in the file `source`, with all parts of a split one.

    Raises ShapeUnknown, and ModelUnusable for what is no model or is not whole.
    """
    if isinstance(source, Shape):
        return source
    return shape_of(whole_header(source))
