"""Getting a model's files onto this machine: the question before, the progress meanwhile."""

from __future__ import annotations

from typing import Final

from specchat.catalogue.entries import Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.hub import Hub
from specchat.catalogue.locate import is_here
from specchat.catalogue.progress import Phase, Progress
from specchat.chat.models import Models, missing, settled
from specchat.chat.text import visible
from specchat.cli.consent import agrees, can_ask
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.interrupts import Interrupts
from specchat.fit.report import command, sentence
from specchat.llama.errors import DoesNotFit

_BAR: Final = 24


class Obtaining:
    """Asks, checks the fit, downloads. `yes` agrees beforehand; `force` downloads also what does not fit."""

    def __init__(
        self,
        environment: Environment,
        diagnostics: Diagnostics,
        interrupts: Interrupts,
        *,
        yes: bool = False,
        force: bool = False,
        offline: bool = False,
    ) -> None:
        self._environment = environment
        self._diagnostics = diagnostics
        self._interrupts = interrupts
        self._yes = yes
        self._force = force
        self.hub = Hub(offline=offline, say=diagnostics.note, cancelled=interrupts.arrived)

    @property
    def may_ask(self) -> bool:
        """Whether something may be downloaded: agreed to beforehand, or somebody is there to be asked."""
        return not self.hub.is_offline and (self._yes or can_ask(self._environment))

    def obtain(self, entry: Entry, models: Models, context: int | None = None, *, draft_too: bool = False) -> Entry:
        """`entry` with its files here, what was only asked for resolved; where only the draft is missing, it may be.

        `draft_too` wants that as well. Raises ModelUnavailable and its kinds, DoesNotFit before anything is fetched,
        DiskFull and Cancelled.
        """
        # Only where something is to be fetched: huggingface_hub takes a moment to import.
        from specchat.catalogue.download import fetch, plan

        if not missing(entry) or (is_here(entry.target) and not draft_too):
            return entry
        if self.hub.is_offline:
            raise ModelUnavailable(
                f"{entry.name} is not on this machine, and the network must not be used (--offline or "
                f"HF_HUB_OFFLINE). Get it with: specchat models pull {entry.id}"
            )
        entry = settled(entry, self.hub)
        wanted = plan((source for source in entry.hub_sources if source in missing(entry)), self.hub)  # type: ignore[misc]
        if not wanted.files:
            return entry
        self._check_fit(entry, models, context)
        if entry.note:
            self._diagnostics.note(entry.note)
        terms = f", {entry.license}" if entry.license else ""
        files = ", ".join(f"{file.remote.source.file} ({size(file.size)})" for file in wanted.files)
        self._ask(entry, f"{entry.name}{terms}: download {files} to {wanted.destination}?", wanted.to_fetch)
        try:
            fetch(wanted, self.hub, self._show)
        finally:
            self._diagnostics.end_progress()
        return entry

    def _check_fit(self, entry: Entry, models: Models, context: int | None) -> None:
        verdict = models.verdict_from_hub(entry, self.hub, context)
        if verdict is None:
            self._diagnostics.note(f"whether {entry.name} fits can't be told before it is here.")
        elif verdict.fits:
            self._diagnostics.note(sentence(verdict))
        elif self._force:
            self._diagnostics.note(f"{sentence(verdict)} Downloading it all the same (--force).")
        else:
            way_out = verdict.way_out
            advice = f" Try: {command(verdict, way_out)}" if way_out else ""
            raise DoesNotFit(f"{sentence(verdict)}{advice} Nothing was downloaded (--force does it all the same).")

    def _ask(self, entry: Entry, question: str, to_fetch: int) -> None:
        if self._yes:
            self._diagnostics.note(question.removesuffix("?"))
            return
        environment = self._environment
        if not can_ask(environment):
            raise ModelUnavailable(
                f"{entry.name} is not on this machine ({size(to_fetch)} to download). "
                f"Get it with: specchat models pull {entry.id} -y"
            )
        if not agrees(environment, self._diagnostics, question, self._interrupts.arrived):
            raise ModelUnavailable("Nothing was downloaded.")

    def _show(self, progress: Progress) -> None:
        if progress.phase is Phase.WAITING:
            return
        share = progress.done / max(progress.size, 1)
        bar = ("█" * round(share * _BAR)).ljust(_BAR, "░")
        speed = f"{progress.bytes_per_s / 1e6:,.0f} MB/s" if progress.bytes_per_s else ""
        left = f"{_duration(progress.left_s)} left" if progress.left_s is not None else ""
        doing = "verifying " if progress.phase is Phase.VERIFYING else ""
        self._diagnostics.progress(
            f"{bar} {share:4.0%}  {size(progress.done)} of {size(progress.size)}  {speed}  {left}  {doing}"
            f"{visible(progress.file)}"
        )


def size(n: int | None) -> str:
    """`9.0 GB`, as disks and hubs count."""
    if n is None:
        return "size unknown"
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
