"""Fits or not, the largest context that does, and what to change where it doesn't."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from specchat.catalogue.head_kind import HeadKind
from specchat.fit.demand import Demand
from specchat.fit.memory import Memory
from specchat.fit.request import ALL_LAYERS, FitRequest
from specchat.fit.search import STEP, largest
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError

_LEAST_CONTEXT = 4 * STEP
"""A smaller one holds no conversation, so it is no way out."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be loaded: the target, its draft or none, and their contexts."""

    request: FitRequest
    draft: bool = True
    """Whether the draft model or the head is loaded, where there is one."""


Measure = Callable[[Plan], Demand]
"""What a plan takes; raises LlamaError for one that llama.cpp would refuse."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model whose plans can be measured, with the draft it would have."""

    id: str
    measure: Measure
    has_draft: bool
    trained_context: int
    """Tokens; 0 where unknown."""
    layers: int
    """Of the target, the output counted as one: what `gpu_layers` counts."""
    head: HeadKind | None = None
    """What kind of trained head drafts; None: a draft model, or nothing."""
    head_in_file: bool = False
    """Whether that head is a part of the target's file."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One change, or several together, and what is gained."""

    what: str
    options: tuple[str, ...]
    """What to add to the command line."""
    model: str
    demand: Demand
    frees: int
    """Bytes less than the plan that was asked for."""
    fits: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was asked, what it takes, what there is."""

    model: str
    plan: Plan
    demand: Demand
    memory: Memory
    largest_context: int
    """Tokens, as the plan is otherwise; 0 where no context fits."""
    fixes: tuple[Fix, ...] = ()
    """In order of value; single changes first, then such as only together are enough."""

    @property
    def fits(self) -> bool:
        """Whether everything lies in what is usable."""
        return self.demand.total <= self.memory.usable

    @property
    def missing(self) -> int:
        """Bytes too many; 0 where it fits."""
        return max(0, self.demand.total - self.memory.usable)

    @property
    def way_out(self) -> Fix | None:
        """The first change that is enough."""
        return next((fix for fix in self.fixes if fix.fits), None)


def judge(candidate: Candidate, plan: Plan, memory: Memory, others: Iterable[Candidate] = ()) -> Verdict:
    """Whether `plan` fits into `memory`; `others` are models to propose instead, the best first.

    Raises what measuring the plan itself raises.
    """
    plan = replace(plan, draft=plan.draft and candidate.has_draft)
    measured = _Measured(candidate, memory)
    demand = candidate.measure(plan)
    longest = max(candidate.trained_context, plan.request.context)
    context = measured.largest_context(plan, longest)
    verdict = Verdict(candidate.id, plan, demand, memory, context)
    if verdict.fits:
        # One that fits may end between two steps, of which the next would not.
        return replace(verdict, largest_context=max(context, plan.request.context))
    return replace(verdict, fixes=tuple(_fixes(_Changes(measured, plan), verdict, others)))


class _Measured:
    """A candidate's plans against the memory there is; a plan that llama.cpp refuses doesn't fit."""

    def __init__(self, candidate: Candidate, memory: Memory) -> None:
        self.candidate = candidate
        self.memory = memory
        self._known: dict[Plan, Demand | None] = {}

    def demand(self, plan: Plan) -> Demand | None:
        if plan not in self._known:
            try:
                self._known[plan] = self.candidate.measure(plan)
            except LlamaError:
                self._known[plan] = None
        return self._known[plan]

    def fits(self, plan: Plan) -> bool:
        demand = self.demand(plan)
        return demand is not None and demand.total <= self.memory.usable

    def largest_context(self, plan: Plan, longest: int) -> int:
        return largest(lambda cells: self.fits(with_request(plan, context=cells)), longest)

    def most_layers(self, plan: Plan) -> int:
        """The most layers on the GPU that fit; 0 where not one does."""
        fitting, failing = 0, self.candidate.layers
        while failing - fitting > 1:
            middle = (fitting + failing) // 2
            fits = self.fits(with_request(plan, gpu_layers=middle))
            fitting, failing = (middle, failing) if fits else (fitting, middle)
        return fitting


def with_request(plan: Plan, **changes: object) -> Plan:
    """The plan with another request."""
    return replace(plan, request=replace(plan.request, **changes))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class _Change:
    """One thing to do differently."""

    what: str
    options: tuple[str, ...]
    apply: Callable[[Plan], Plan]


class _Changes:
    """What can be changed about a plan; None where a change is none here."""

    def __init__(self, measured: _Measured, plan: Plan) -> None:
        self.measured = measured
        self.plan = plan

    def smaller_context(self, plan: Plan) -> _Change | None:
        asked = plan.request.context
        cells = self.measured.largest_context(plan, asked)
        if not _LEAST_CONTEXT <= cells < asked:
            return None
        what = f"context {asked:,} → {cells:,}"
        return _Change(what, ("--ctx", str(cells)), lambda p: with_request(p, context=cells))

    def quantised_draft_cache(self) -> _Change | None:
        # The one layer of a head has little to gain.
        headed = self.measured.candidate.head is not None
        if not self.plan.draft or headed or self.plan.request.draft_kv_type is not KVType.F16:
            return None
        options = ("--draft-kv", "q8_0")
        return _Change("draft KV q8_0", options, lambda p: with_request(p, draft_kv_type=KVType.Q8_0))

    def quantised_cache(self) -> _Change | None:
        if self.plan.request.kv_type is not KVType.F16:
            return None
        return _Change("target KV q8_0", ("--kv", "q8_0"), lambda p: with_request(p, kv_type=KVType.Q8_0))

    def no_draft(self) -> _Change | None:
        if not self.plan.draft:
            return None
        candidate = self.measured.candidate
        what = "no draft model" if candidate.head is None else "no trained head"
        what, options = f"{what}: suffix drafts instead", ("--draft", "none")
        if candidate.head_in_file:
            options = ("--method", "suffix")
        return _Change(what, options, lambda p: replace(p, draft=False))

    def fewer_layers(self, plan: Plan) -> _Change | None:
        request, all_layers = plan.request, self.measured.candidate.layers
        if not request.on_device or request.gpu_layers != ALL_LAYERS:
            return None
        layers = self.measured.most_layers(plan)
        if layers == 0:
            return None
        what = f"layers on the GPU {all_layers} → {layers}, the others on the CPU"
        return _Change(what, ("--gpu-layers", str(layers)), lambda p: with_request(p, gpu_layers=layers))


def _fixes(changes: _Changes, verdict: Verdict, others: Iterable[Candidate]) -> list[Fix]:
    """Single changes in order of value, then the fewest together that keep the context, else that fit at all."""
    measured, plan = changes.measured, verdict.plan
    keeping = (changes.quantised_draft_cache(), changes.quantised_cache(), changes.no_draft())
    steps = [change for change in keeping if change is not None]
    kept = [fix for step in steps if (fix := _fix(measured, verdict, [step]))]
    fixes = [*_alone(measured, verdict, changes.smaller_context(plan)), *kept]
    fixes += _another_model(verdict, others)
    fixes += _alone(measured, verdict, changes.fewer_layers(plan))
    if not any(fix.fits for fix in kept):
        fixes += _together(changes, verdict, steps, or_less=not any(fix.fits for fix in fixes))
    # What frees nothing helps nobody: a recurrent model has no cache to quantise.
    return [fix for fix in fixes if fix.frees > 0]


def _alone(measured: _Measured, verdict: Verdict, change: _Change | None) -> list[Fix]:
    fix = None if change is None else _fix(measured, verdict, [change])
    return [] if fix is None else [fix]


def _fix(measured: _Measured, verdict: Verdict, changes: Sequence[_Change]) -> Fix | None:
    plan = _applied(verdict.plan, changes)
    demand = measured.demand(plan)
    if demand is None:
        return None
    what = " and ".join(change.what for change in changes)
    options = tuple(option for change in changes for option in change.options)
    return Fix(what, options, verdict.model, demand, verdict.demand.total - demand.total, measured.fits(plan))


def _another_model(verdict: Verdict, others: Iterable[Candidate]) -> list[Fix]:
    """The first of the others that fits as the plan is."""
    for other in others:
        plan = replace(verdict.plan, draft=other.has_draft)
        measured = _Measured(other, verdict.memory)
        demand = measured.demand(plan)
        if demand is not None and measured.fits(plan):
            frees = verdict.demand.total - demand.total
            return [Fix(f"another model: {other.id}", ("-m", other.id), other.id, demand, frees, True)]
    return []


def _together(changes: _Changes, verdict: Verdict, steps: Sequence[_Change], *, or_less: bool) -> list[Fix]:
    """Two changes that only together are enough; `or_less`: a smaller context or fewer layers may join them."""
    measured = changes.measured
    # Not three: without a draft there is no cache of it to quantise. For the same reason those two never meet here:
    # leaving the draft out is tried alone before.
    sets = [list(pair) for pair in combinations(steps, 2)]
    tries: list[list[_Change]] = list(sets)
    for last in (changes.smaller_context, changes.fewer_layers) if or_less else ():
        for chosen in [[step] for step in steps] + sets:
            final = last(_applied(verdict.plan, chosen))
            tries += [[*chosen, final]] if final is not None else []
    found = (_fix(measured, verdict, chosen) for chosen in tries)
    return next(([fix] for fix in found if fix is not None and fix.fits), [])


def _applied(plan: Plan, changes: Iterable[_Change]) -> Plan:
    for change in changes:
        plan = change.apply(plan)
    return plan
