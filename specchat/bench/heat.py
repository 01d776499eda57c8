"""A heat: those contestants that are open at a time, plain decoding among them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from specchat.bench.entrants import PLAIN, Arm, Entrant, Figures, Model, Ours, enter
from specchat.bench.extent import Cell, Pace
from specchat.bench.prompts import BENCH_CLASSES
from specchat.bench.record import quantisation_of
from specchat.bench.results import Contest, Missing, Sample
from specchat.catalogue.errors import ModelUnavailable
from specchat.chat.message import Message, Role
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.llama.errors import DoesNotFit, LlamaError
from specchat.retrieval.errors import DatastoreError

Told = Callable[[str], None]
PeerMaker = Callable[[Session, Path | None], list["tuple[str, Callable[[], Entrant]]"]]
"""Given the plain session and the draft's file, if any: names of peers, and how to open them."""
_WARM_UP = (Message(Role.USER, "Hello, who are you?"),)
_WARM_UP_TOKENS = 12


class Heat:
    """Open contestants, which `close` frees; `found` is told of those that can't take part."""

    def __init__(self, model: Model, folder: Path, found: Contest, told: Told, number: int) -> None:
        self.entrants: list[Entrant] = []
        self.alone = False
        """Whether one session is its own base, where memory holds no second one; it stays open."""
        self._model, self._folder, self._found, self._told, self._number = model, folder, found, told, number
        self._stack = ExitStack()
        self._peers: PeerMaker | None = None

    def close(self) -> None:
        """Free all."""
        self._stack.close()
        self.entrants = []

    def open(self, waiting: deque[Arm]) -> None:
        """Plain decoding and as many of `waiting` as memory holds beside it; those are taken from `waiting`.

        Where not even one does, it takes part alone and answers plainly too.
        """
        plain = self._opened(PLAIN)
        self._found.model = plain.engine.model.path.name
        self._found.quantisation = quantisation_of(plain.engine.model)
        self.entrants = [Ours(PLAIN, plain)]
        while waiting:
            arm = waiting[0]
            try:
                session = self._opened(arm)
            except DoesNotFit:
                if len(self.entrants) > 1:
                    break
                self.close()
                self._go_alone(arm)
                waiting.popleft()
                break
            except (ModelUnavailable, DatastoreError, LlamaError) as error:
                self._found.missing.append(Missing(arm.label, str(error)))
                waiting.popleft()
                continue
            waiting.popleft()
            if session.engine.method is Method.NONE:
                reason = " ".join(session.take_notes()) or "it decodes plainly here."
                self._found.missing.append(Missing(arm.label, reason))
                session.close()
                continue
            self._enrol(arm)
            self.entrants.append(Ours(arm, session))

    def invite(self, peers: PeerMaker) -> None:
        """The peers that can be opened, on the same files."""
        self._peers = peers
        known = {entrant.label for entrant in self.entrants}
        self._open_peers(None)
        self._found.labels += [entrant.label for entrant in self.entrants if entrant.label not in known]

    def reopen(self) -> float:
        """Open the same contestants anew; the seconds it took.

        Two contexts of one kind differ by up to 6 % as long as they live, by where their memory lies; over several
        openings that luck cancels out. Raises what opening raises.
        """
        started = time.perf_counter()
        arms = [entrant.arm for entrant in self.entrants if isinstance(entrant, Ours)]
        others = {entrant.label for entrant in self.entrants if not isinstance(entrant, Ours)}
        self.close()
        self.entrants = [Ours(arm, self._opened(arm)) for arm in arms]
        self._open_peers(others)
        self.warm_up()
        return time.perf_counter() - started

    def warm_up(self) -> Pace:
        """A short answer of everyone, which no figure counts; what it says of the pace, without the opening."""
        answer_s = token_s = 0.0
        for entrant in list(self.entrants):
            self._told(f"warming up: {entrant.label}")
            figures = self._ask(entrant, _WARM_UP, 0.0, _WARM_UP_TOKENS)
            if figures is not None:
                answer_s += figures.ttft_s
                token_s += figures.seconds / max(1, figures.tokens)
        return Pace(answer_s, token_s, 0.0)

    def answer(self, cell: Cell, tokens: int, place: str, *, backwards: bool) -> None:
        """Everyone answers the prompt of `cell`, one after the other."""
        prompts = BENCH_CLASSES[cell.kind]
        for entrant in self.entrants[:: -1 if backwards else 1]:
            self._told(f"{place}: {cell.kind}, T = {cell.temperature:g}, {entrant.label}")
            figures = self._ask(entrant, prompts[cell.round % len(prompts)], cell.temperature, tokens)
            if figures is not None:
                sample = Sample(entrant.label, cell.kind, cell.temperature, cell.round, figures, self._number)
                self._found.samples.append(sample)

    def take_notes(self) -> None:
        """Tell what the sessions have to say, once."""
        notes = [note for one in self.entrants if isinstance(one, Ours) for note in one.session.take_notes()]
        self._found.notes += [note for note in dict.fromkeys(notes) if note not in self._found.notes]

    def _opened(self, arm: Arm) -> Session:
        self._told(f"opening {arm.label} …")
        return self._stack.enter_context(closing(enter(self._model, arm, self._folder)))

    def _enrol(self, arm: Arm) -> None:
        self._found.labels.append(arm.label)
        self._found.arms[arm.label] = arm

    def _go_alone(self, arm: Arm) -> None:
        """`arm` as its own base; plain decoding by itself where not even that can be opened."""
        try:
            session = self._opened(arm)
        except (ModelUnavailable, LlamaError) as error:
            self._found.missing.append(Missing(arm.label, str(error)))
            self.entrants = [Ours(PLAIN, self._opened(PLAIN))]
            return
        self.alone = True
        self._found.notes.append(
            f"{arm.label} fits only without a second copy of the model: its base is its own plain answers."
        )
        self._enrol(arm)
        self.entrants = [Ours(arm, session, alone=True), Ours(arm, session)]

    def _open_peers(self, wanted: set[str] | None) -> None:
        """Those of `wanted` (None: all) that can be opened; they may use the plain session until all are closed."""
        if self._peers is None:
            return
        ours = [entrant for entrant in self.entrants if isinstance(entrant, Ours)]
        drafts = [one.session.engine.settings.draft for one in ours if one.arm.method is Method.DRAFT]
        for label, make in self._peers(ours[0].session, drafts[0] if drafts else None):
            if wanted is not None and label not in wanted:
                continue
            self._told(f"opening {label} …")
            try:
                self.entrants.append(self._stack.enter_context(closing(make())))
            except LlamaError as error:
                self._found.missing.append(Missing(label, str(error)))

    def _ask(self, entrant: Entrant, messages: Sequence[Message], temperature: float, tokens: int) -> Figures | None:
        """One answer; a peer that fails leaves the contest, a failure of ours ends it."""
        try:
            return entrant.answer(messages, temperature, tokens)
        except LlamaError as error:
            if isinstance(entrant, Ours):
                raise
            self._found.missing.append(Missing(entrant.label, str(error)))
            self.entrants.remove(entrant)
            return None


def with_opening(pace: Pace, seconds: float) -> Pace:
    """`pace` of contestants that took so long to open and warm up."""
    return replace(pace, opening_s=seconds)
