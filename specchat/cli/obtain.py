"""Getting a model's files onto this machine: the question before, the progress meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from specchat.catalogue.cache import DiskFull
from specchat.catalogue.entries import Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.hub import Hub
from specchat.catalogue.hub_errors import Cancelled
from specchat.catalogue.locate import is_here
from specchat.catalogue.progress import Phase, Progress
from specchat.catalogue.sources import HubFile
from specchat.chat.amounts import size
from specchat.chat.models import Models, missing, settled, size_of_all
from specchat.chat.text import visible
from specchat.cli.consent import agrees, can_ask
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.interrupts import Interrupts
from specchat.cli.terminal import columns, cut
from specchat.engine.settings import EngineSettings
from specchat.fit.gate import advice
from specchat.fit.report import sentence
from specchat.llama.errors import DoesNotFit

if TYPE_CHECKING:
    from specchat.catalogue.download import Plan

_BAR: Final = 24
_LEAST_LINE: Final = 20


class Obtaining:
    """Asks, checks the fit, downloads. `yes` agrees beforehand; `force` downloads also what does not fit.

    `settings`: how it will be loaded, but for the files; `named`: options that the user gave, for a proposed command.
    """

    def __init__(
        self,
        environment: Environment,
        diagnostics: Diagnostics,
        interrupts: Interrupts,
        *,
        yes: bool = False,
        force: bool = False,
        offline: bool = False,
        settings: EngineSettings | None = None,
        named: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        self._diagnostics = diagnostics
        self._interrupts = interrupts
        self._yes = yes
        self._force = force
        self._settings, self._named = settings, named
        self._judged: Entry | None = None
        self.hub = Hub(offline=offline, say=self._say, cancelled=interrupts.arrived)

    def _say(self, sentence: str) -> None:
        # Ctrl-C cuts the connection; that it is tried again would be news, and wrong.
        if not self._interrupts.arrived():
            self._diagnostics.note(sentence)

    @property
    def may_ask(self) -> bool:
        """Whether something may be downloaded: agreed to beforehand, or somebody is there to be asked."""
        return not self.hub.is_offline and (self._yes or can_ask(self._environment))

    def obtain(self, entry: Entry, models: Models, *, draft_too: bool = False, weighed: Entry | None = None) -> Entry:
        """`entry` with its files here, what was only asked for resolved; where only the draft is missing, it may be.

        `draft_too` wants that as well. `weighed`: what must fit, where `entry` is only a part of it. Raises
        ModelUnavailable and its kinds, DoesNotFit before anything is fetched, DiskFull and Cancelled.
        """
        # Only where something is to be fetched: huggingface_hub takes a moment to import.
        from specchat.catalogue.download import fetch, plan

        if not missing(entry) or (is_here(entry.target) and not draft_too):
            return entry
        self._refuse_unasked(entry)
        entry = settled(entry, self.hub)
        absent = [source for source in missing(entry) if isinstance(source, HubFile)]
        wanted = plan(absent, self.hub)
        if not wanted.files:
            return entry
        self._check_disk(wanted)
        self._check_fit(weighed or entry, models)
        if entry.note:
            self._diagnostics.note(entry.note)
        self._ask(_question(entry, absent, wanted))
        try:
            fetch(wanted, self.hub, self._show)
        finally:
            self._diagnostics.end_progress()
        return entry

    def _refuse_unasked(self, entry: Entry) -> None:
        """Refuse, without a request, where the network must not be used or where nobody could agree."""
        what = f"The draft model of {entry.name}" if is_here(entry.target) else entry.name
        if self.hub.is_offline:
            raise ModelUnavailable(
                f"{what} is not on this machine, and the network must not be used (--offline or "
                f"HF_HUB_OFFLINE). Get it with: specchat models pull {entry.id}"
            )
        if not self.may_ask:
            known = size_of_all(missing(entry))
            much = f" ({size(known)} to download)" if known else ""
            raise ModelUnavailable(
                f"{what} is not on this machine{much}. Get it with: specchat models pull {entry.id} -y"
            )

    def _check_disk(self, wanted: Plan) -> None:
        if not wanted.fits:
            raise DiskFull(
                f"The download needs {size(wanted.to_fetch)} in {wanted.destination}, but only {size(wanted.free)} "
                "are free there. Free some, or set HF_HOME to a folder on a larger disk."
            )

    def _check_fit(self, entry: Entry, models: Models) -> None:
        if entry == self._judged:
            return
        self._judged = entry
        verdict = models.verdict_from_hub(entry, self.hub, self._settings)
        if verdict is None:
            self._diagnostics.note(f"whether {entry.name} fits can't be told before it is here.")
        elif verdict.fits:
            self._diagnostics.note(sentence(verdict))
        elif self._force:
            self._diagnostics.note(f"{sentence(verdict)} Downloading it all the same (--force).")
        else:
            raise DoesNotFit(
                f"{sentence(verdict)} {advice(verdict, self._settings, self._named)}. "
                "Nothing was downloaded (--force does it all the same)."
            )

    def _ask(self, question: str) -> None:
        if self._yes:
            self._diagnostics.note(question)
        elif not agrees(self._environment, self._diagnostics, f"{question}?", self._interrupts.arrived):
            if self._interrupts.arrived():
                raise Cancelled("Nothing was downloaded.")
            raise ModelUnavailable("Nothing was downloaded.")

    def _show(self, progress: Progress) -> None:
        if progress.phase is Phase.WAITING:
            return
        share = progress.done / max(progress.size, 1)
        bar = ("█" * round(share * _BAR)).ljust(_BAR, "░")
        figures = [f"{share:4.0%}", f"{size(progress.done)} of {size(progress.size)}"]
        if progress.phase is Phase.VERIFYING:
            figures.append("verifying")
        elif progress.bytes_per_s:
            figures.append(f"{size(round(progress.bytes_per_s))}/s")
            figures += [f"{_duration(progress.left_s)} left"] if progress.left_s is not None else []
        width = max(_LEAST_LINE, columns(self._environment, self._environment.stderr) - 1)
        line = "  ".join([*figures, visible(progress.file)])
        # What tells most stays on a narrow terminal, where a second line could not be taken away again.
        self._diagnostics.progress(cut(f"{bar} {line}" if width >= 3 * _BAR else line, width))


def _question(entry: Entry, absent: list[HubFile], wanted: Plan) -> str:
    """What is to be downloaded, how much of it, where to and under which terms."""
    sizes = {(file.remote.source.repo, file.remote.source.file): file.size for file in wanted.files}
    files = []
    for source in absent:
        mine = [sizes[key] for part in source.files if (key := (part.repo, part.file)) in sizes]
        parts = f" in {len(mine)} parts" if len(mine) > 1 else ""
        files += [f"{visible(source.file)}{parts} ({size(sum(mine))})"] if mine else []
    held = wanted.size - wanted.to_fetch
    going_on = f", of which {size(held)} are here already," if held else ""
    return f"{visible(entry.name)}{_terms(entry)}: download {', '.join(files)}{going_on} to {wanted.destination}"


def _terms(entry: Entry) -> str:
    terms = [visible(entry.license)] if entry.license else ["licence not known"]
    return f" ({', '.join([*terms, *(['gated'] if entry.gated else [])])})"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
