"""Methods, depths and temperatures over classes of prompts: everyone answers in turns, plain decoding among them."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from specchat.bench.entrants import PLAIN, Arm, Entrant, Figures, Model, Ours, enter
from specchat.bench.passes import Passes, measure_passes
from specchat.bench.prompts import BENCH_CLASSES
from specchat.catalogue.errors import ModelUnavailable
from specchat.chat.message import Message, Role
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import DoesNotFit, LlamaError

Told = Callable[[str], None]
METHODS = tuple(method for method in Method if method is not Method.NONE)
_WITH_PASSES = (Method.DRAFT, Method.LAYER_SKIP, Method.EARLY_EXIT)
_OWN_DEPTH = (Method.AUTO, Method.LOOKAHEAD)
_WARM_UP = (Message(Role.USER, "Hello, who are you?"),)
_WARM_UP_TOKENS = 12
_ALL_SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: every arm answers `rounds` times per class and temperature, as far as time allows."""

    kinds: tuple[str, ...] = tuple(BENCH_CLASSES)
    temperatures: tuple[float, ...] = (0.0, 0.8)
    rounds: int = 3
    tokens: int = 48
    budget_s: float | None = 540.0
    """Seconds from the start; None: until all rounds are done. At least one answer of everyone is always given."""
    cycles: int = 3
    """Times that each size of pass is measured three times."""
    largest_pass: int = 32


QUICK = Extent(kinds=("prose", "code", "edit"), rounds=1, tokens=24, budget_s=75.0, cycles=2, largest_pass=16)
FULL = Extent(temperatures=(0.0, 0.8, 1.0), rounds=5, tokens=128, budget_s=None, cycles=5, largest_pass=64)


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer in the contest."""

    label: str
    kind: str
    temperature: float
    round: int
    figures: Figures


@dataclass(frozen=True, slots=True)
class Missing:
    """Who could not take part, and why."""

    label: str
    reason: str


@dataclass(slots=True)
class Contest:
    """Everything that was measured."""

    model: str
    extent: Extent
    labels: list[str] = field(default_factory=list)
    """In the order of the table, plain decoding first."""
    arms: dict[str, Arm] = field(default_factory=dict)
    """Our own, by label."""
    samples: list[Sample] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    passes: Passes | None = None
    complete: bool = True
    """Whether all rounds were done within the budget."""
    interrupted: bool = False
    """Whether the user ended it; what was measured until then stands."""
    seconds: float = 0.0


def arms_of(methods: Sequence[Method], depths: Sequence[int] = (), *, full: bool = False) -> list[Arm]:
    """The arms: each method at `depths`, else at 3 with forward passes and at 7 without; several of them if `full`."""
    found = list[Arm]()
    for method in methods:
        if method in _OWN_DEPTH:
            found.append(Arm(method))
            continue
        usual = ((1, 2, 3, 5, 7) if full else (3,)) if method in _WITH_PASSES else ((3, 7, 15) if full else (7,))
        found += [Arm(method, depth) for depth in depths or usual]
    return found


def oracles(alpha: float, depths: Sequence[int] = ()) -> list[Arm]:
    """Oracle arms of acceptance `alpha`."""
    return [Arm(Method.PROMPT_LOOKUP, depth, alpha) for depth in depths or (1, 3, 5, 7)]


PeerMaker = Callable[[Session, Path | None], list["tuple[str, Callable[[], Entrant]]"]]
"""Given the plain session and the draft's file, if any: names of peers, and how to open them."""


def contest(
    model: Model, extent: Extent, arms: Sequence[Arm], told: Told = lambda _: None, peers: PeerMaker | None = None
) -> Contest:
    """Run it all; raises what opening the model for plain decoding raises.

    An interrupt ends it with what was measured; before the first answer it is raised.
    """
    started = time.perf_counter()
    found = Contest(model.model or "", extent, labels=[PLAIN.label], arms={PLAIN.label: PLAIN})
    waiting = deque(arms)
    with tempfile.TemporaryDirectory(prefix="specchat-bench-") as folder:
        try:
            while waiting or found.passes is None:
                with ExitStack() as stack, _heat(model, waiting, Path(folder), found, told) as entrants:
                    if found.passes is None:
                        _look_at(entrants[0], found, arms, told)
                        entrants += _peers(entrants, stack, found, peers, told)
                    share = 1 - len(waiting) / len(arms) if arms else 1.0
                    deadline = None if extent.budget_s is None else started + extent.budget_s * share
                    _answer(entrants, extent, deadline, found, told)
                    found.notes += _notes(entrants, found.notes)
        except KeyboardInterrupt:
            if not found.samples:
                raise
            found.interrupted, found.complete = True, False
    found.seconds = time.perf_counter() - started
    return found


@contextmanager
def _heat(model: Model, waiting: deque[Arm], folder: Path, found: Contest, told: Told) -> Iterator[list[Entrant]]:
    """Plain decoding and as many of `waiting` as memory holds beside it; those are taken from `waiting`.

    Where not even one does, it takes part alone and answers plainly too.
    """
    with ExitStack() as stack:

        def opened(arm: Arm) -> Session:
            told(f"opening {arm.label} …")
            return stack.enter_context(closing(enter(model, arm, folder)))

        plain = opened(PLAIN)
        found.model = plain.engine.model.path.name
        entrants: list[Entrant] = [Ours(PLAIN, plain)]
        while waiting:
            arm = waiting[0]
            try:
                session = opened(arm)
            except DoesNotFit:
                if len(entrants) > 1:
                    break
                stack.close()
                entrants = _alone(opened, arm, found)
                waiting.popleft()
                break
            except (ModelUnavailable, LlamaError) as error:
                found.missing.append(Missing(arm.label, str(error)))
                waiting.popleft()
                continue
            waiting.popleft()
            if session.engine.method is Method.NONE:
                reason = " ".join(session.take_notes()) or "it decodes plainly here."
                found.missing.append(Missing(arm.label, reason))
                continue
            _enrol(arm, found)
            entrants.append(Ours(arm, session))
        yield entrants


def _enrol(arm: Arm, found: Contest) -> None:
    found.labels.append(arm.label)
    found.arms[arm.label] = arm


def _alone(opened: Callable[[Arm], Session], arm: Arm, found: Contest) -> list[Entrant]:
    """`arm` as its own base; plain decoding by itself where not even that can be opened."""
    try:
        session = opened(arm)
    except (ModelUnavailable, LlamaError) as error:
        found.missing.append(Missing(arm.label, str(error)))
        return [Ours(PLAIN, opened(PLAIN))]
    found.notes.append(f"{arm.label} fits only without a second copy of the model: its base is its own plain answers.")
    _enrol(arm, found)
    return [Ours(arm, session, alone=True), Ours(arm, session)]


def _look_at(plain: Entrant, found: Contest, arms: Sequence[Arm], told: Told) -> None:
    """Measure T(n) in a context of its own, after a prompt of the contest."""
    assert isinstance(plain, Ours)
    engine, extent = plain.session.engine, found.extent
    deepest = max((arm.depth + 1 for arm in arms if arm.depth), default=1)
    largest = max(extent.largest_pass, min(deepest, _ALL_SIZES[-1]))
    sizes = sorted({n for n in _ALL_SIZES if n <= largest} | {arm.depth + 1 for arm in arms if arm.depth})
    params = engine.target.params
    wide = ContextParams(params.n_ctx, max(sizes), params.threads, kv_type=params.kv_type)
    prompt = plain.session.builder.build(BENCH_CLASSES[extent.kinds[0]][0]).token_ids
    with Context(engine.model, wide) as context:
        room = context.n_ctx - max(sizes)
        found.passes = measure_passes(context, prompt[:room], sizes, extent.cycles, told)


def _peers(
    entrants: Sequence[Entrant], stack: ExitStack, found: Contest, peers: PeerMaker | None, told: Told
) -> list[Entrant]:
    """The peers that can be opened, on the same files; `stack` closes them."""
    if peers is None:
        return []
    ours = [entrant for entrant in entrants if isinstance(entrant, Ours)]
    drafts = [ours_.session.engine.settings.draft for ours_ in ours if ours_.arm.method is Method.DRAFT]
    made = list[Entrant]()
    for label, make in peers(ours[0].session, drafts[0] if drafts else None):
        told(f"opening {label} …")
        try:
            made.append(stack.enter_context(closing(make())))
        except LlamaError as error:
            found.missing.append(Missing(label, str(error)))
        else:
            found.labels.append(label)
    return made


def _answer(entrants: list[Entrant], extent: Extent, deadline: float | None, found: Contest, told: Told) -> None:
    """All rounds of one heat, or as many cells as end before `deadline`, but at least one; each cell is whole."""
    for entrant in list(entrants):
        told(f"warming up: {entrant.label}")
        _ask(entrant, entrants, found, _WARM_UP, 0.0, _WARM_UP_TOKENS)
    cells = [(n, t, kind) for n in range(extent.rounds) for kind in extent.kinds for t in extent.temperatures]
    longest = 0.0
    for done, (n, temperature, kind) in enumerate(cells):
        began = time.perf_counter()
        if done and deadline is not None and began + longest > deadline:
            found.complete = False
            return
        prompts = BENCH_CLASSES[kind]
        for entrant in entrants[:: -1 if done % 2 else 1]:
            told(f"{done + 1} of {len(cells)}: {kind}, T = {temperature:g}, {entrant.label}")
            figures = _ask(entrant, entrants, found, prompts[n % len(prompts)], temperature, extent.tokens)
            if figures is not None:
                found.samples.append(Sample(entrant.label, kind, temperature, n, figures))
        longest = max(longest, time.perf_counter() - began)


def _ask(
    entrant: Entrant,
    entrants: list[Entrant],
    found: Contest,
    messages: Sequence[Message],
    temperature: float,
    tokens: int,
) -> Figures | None:
    """One answer; a peer that fails leaves the contest, a failure of ours ends it."""
    try:
        return entrant.answer(messages, temperature, tokens)
    except LlamaError as error:
        if isinstance(entrant, Ours):
            raise
        found.missing.append(Missing(entrant.label, str(error)))
        entrants.remove(entrant)
        return None


def _notes(entrants: Sequence[Entrant], said: Sequence[str]) -> list[str]:
    notes = [note for one in entrants if isinstance(one, Ours) for note in one.session.take_notes()]
    return [note for note in dict.fromkeys(notes) if note not in said]
