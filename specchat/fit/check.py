"""From a model, whether its file is here or not, to a verdict: exact where llama.cpp can be asked, else by formula."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from specchat.catalogue.head_kind import HeadKind
from specchat.engine.settings import EngineSettings
from specchat.engine.sizes import draft_params, target_params
from specchat.fit.demand import Demand
from specchat.fit.dimensions import Shape, ShapeUnknown
from specchat.fit.exact import Devices, ExactMeasure, FitUnavailable
from specchat.fit.formula import demand_of_shapes
from specchat.fit.heads import head_of
from specchat.fit.memory import Card, Memory, host, nvidia_cards, of_gpus, planned, with_freed
from specchat.fit.pairs import Pair, Source, shape_here
from specchat.fit.request import FitRequest
from specchat.fit.verdict import Candidate, Measure, Plan, Verdict, judge
from specchat.llama.errors import LlamaError
from specchat.llama.gguf import read_header
from specchat.llama.gpus import Gpu, gpus_unknown


def request_for(settings: EngineSettings, *, n_ctx_train: int, on_device: bool) -> FitRequest:
    """What an engine with these settings asks llama.cpp for; `n_ctx_train`: 0 where it isn't known."""
    # Snapshots are asked for in any case: llama.cpp gives none to a model without a running state.
    target = target_params(settings, n_ctx_train=n_ctx_train, recurrent=True, threads=1)
    draft = draft_params(target.n_ctx, threads=1, kv_type=settings.draft_kv_type)
    return FitRequest(
        context=target.n_ctx,
        kv_type=target.kv_type,
        draft_kv_type=draft.kv_type,
        gpu_layers=settings.gpu_layers,
        flash_attention=on_device,
        n_outputs_max=target.n_outputs_max,
        n_ubatch=target.n_ubatch,
        draft_ubatch=draft.n_ubatch,
        n_rs_seq=target.n_rs_seq,
        on_device=on_device,
    )


def memory_of(
    gpus: Sequence[Gpu], cards: Mapping[str, Card], *, unknown: str | None, has_context: bool = False
) -> Memory:
    """The memory that an engine computes in: that of llama.cpp's `gpus`, else the machine's.

    `unknown`: why llama.cpp does not tell its GPUs; the NVIDIA `cards` are then taken for them. `has_context` as for
    `of_gpus`. Raises FitUnavailable where no such card is known either.
    """
    if unknown is not None and not gpus:
        gpus = [Gpu(card.name, card.free, card.total, address) for address, card in cards.items()]
        if not gpus:
            raise FitUnavailable(unknown)
    return of_gpus(gpus, cards, has_context=has_context) if gpus else host()


def as_loaded(pair: Pair, settings: EngineSettings, *, heads: Callable[[], bool]) -> tuple[Pair, HeadKind | None]:
    """`pair` as an engine with these settings loads it, and the kind of head that it drafts with.

    `heads`: whether the installed llama.cpp hands out hidden states. Without them a trained head is left out, which
    the engine says; only Medusa heads need none of these functions. Raises ModelUnusable.
    """
    head = head_of(pair, settings)
    if head in (None, HeadKind.MEDUSA) or heads():
        return pair, head
    return replace(pair, draft=None), None


def shapes_of(pair: Pair) -> tuple[Shape, Shape | None]:
    """The dimensions of target and draft. Raises ShapeUnknown, ModelUnusable."""
    return shape_here(pair.target), None if pair.draft is None else shape_here(pair.draft)


class Check:
    """Judges pairs against one memory: the machine's, with `vram` that of a card with so many bytes, or `memory`.

    `freed`: bytes that will be free besides, since another process closes the model that it holds before one is opened.
    One process is asked about all pairs; close it before models are loaded, since on a GPU it holds memory.
    """

    def __init__(self, vram: int | None = None, *, memory: Memory | None = None, freed: int = 0) -> None:
        # Before the probe: it wakes up the driver, which then takes memory of its own.
        self._cards = nvidia_cards()
        self._exact: ExactMeasure | None = None
        self._estimates = False
        self._unknown: str | None = None
        if memory is not None:
            self.memory = memory
        else:
            self.memory = with_freed(self._of_machine(), freed) if vram is None else planned(vram)

    def _of_machine(self) -> Memory:
        devices = self._devices()
        # Asking why loads llama.cpp into this process, so it is asked only where there is something to explain.
        unknown = gpus_unknown() if devices.offloads and not devices.gpus else None
        try:
            return memory_of(devices.gpus, self._cards, unknown=unknown)
        except FitUnavailable as error:
            self._unknown = str(error)
            return host()

    def _devices(self) -> Devices:
        """What the installed llama.cpp computes on; nothing where it can't be asked, and then all is estimated."""
        if not self._estimates:
            try:
                self._exact = self._exact or ExactMeasure()
                return self._exact.devices()
            except FitUnavailable:
                self.close()
        return Devices(offloads=False, gpus=())

    @property
    def idle_card(self) -> str | None:
        """The NVIDIA card that is here but that the installed llama.cpp can't compute on; None without such."""
        if not self._cards or self._devices().offloads or self._estimates:
            return None
        return next(iter(self._cards.values())).name

    @property
    def heads(self) -> bool:
        """Whether trained heads can be drafted with here; for a card that is not here, that is taken for granted."""
        return self.memory.planned or self._devices().heads

    def judge(
        self,
        pair: Pair,
        settings: EngineSettings,
        *,
        others: Iterable[Pair] = (),
    ) -> Verdict:
        """Whether an engine with these settings fits; `others` are pairs to propose instead, the best first.

        The files are those of `pair`, not those of `settings`. Raises ModelUnusable, LlamaError for a context that
        llama.cpp refuses, and FitUnavailable where neither way can tell.
        """
        if self._unknown is not None:
            raise FitUnavailable(f"Whether {pair.id} fits can't be told. {self._unknown}")
        request = request_for(
            settings,
            n_ctx_train=_dimensions(pair.target)[0],
            on_device=self.memory.on_device,
        )
        others, again = itertools.tee(others)
        try:
            return self._judge(pair, request, settings, others)
        except FitUnavailable:
            if self._estimates:
                raise
            # The probe died of this model: both ways are never mixed in one verdict.
            self.close()
            return self._judge(pair, request, settings, again)

    def _judge(self, pair: Pair, request: FitRequest, settings: EngineSettings, others: Iterable[Pair]) -> Verdict:
        # Lazily: most verdicts look at none of the others.
        candidates = (candidate for other in others if (candidate := self._known(other, settings)) is not None)
        return judge(self._candidate(pair, settings), Plan(request), self.memory, candidates)

    def _known(self, pair: Pair, settings: EngineSettings) -> Candidate | None:
        try:
            return self._candidate(pair, settings)
        except (LlamaError, FitUnavailable):
            return None

    def _candidate(self, pair: Pair, settings: EngineSettings) -> Candidate:
        pair, head = as_loaded(pair, settings, heads=lambda: self.heads)
        measure = self._exactly(pair, head) or _by_formula(pair, head)
        trained, layers = _dimensions(pair.target)
        in_file = head is not None and pair.draft is None
        drafts = pair.draft is not None or head is not None
        return Candidate(pair.id, measure, drafts, trained, layers + 1, head, in_file)

    def _exactly(self, pair: Pair, head: HeadKind | None) -> Measure | None:
        target, draft = pair.target, pair.draft
        if not isinstance(target, Path) or isinstance(draft, Shape):
            return None
        offloads, exact = self._devices().offloads, self._exact
        if exact is None or offloads != self.memory.on_device:
            return None

        def measure(plan: Plan) -> Demand:
            chosen = (draft, head) if plan.draft else (None, None)
            return exact.measure(target, chosen[0], plan.request, chosen[1])

        return measure

    def close(self) -> None:
        """End the probe; what follows is estimated."""
        self._estimates = True
        if self._exact is not None:
            self._exact.close()
            self._exact = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _by_formula(pair: Pair, head: HeadKind | None) -> Measure:
    try:
        target, draft = shapes_of(pair)
    except ShapeUnknown as error:
        raise FitUnavailable(f"What {pair.id} takes can't be told. {error}") from None

    def measure(plan: Plan) -> Demand:
        chosen = (draft, head) if plan.draft else (None, None)
        return demand_of_shapes(target, chosen[0], plan.request, chosen[1])

    return measure


def _dimensions(source: Source) -> tuple[int, int]:
    """Tokens of context that it was trained for, and layers; 0 for what the header doesn't say."""
    if isinstance(source, Shape):
        return source.trained_context, len(source.weights.layers)
    header = read_header(source)
    return header.number("context_length"), header.number("block_count")
