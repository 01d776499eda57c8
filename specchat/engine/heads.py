"""Which trained head drafts, what it reads of the target, and opening it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from specchat.drafters.base import Drafter
from specchat.drafters.heads.block_pairing import require_dflash_pair, tapped_layers
from specchat.drafters.heads.pairing import (
    ASSISTANT,
    HeadMismatch,
    drafts_in_parallel,
    eagle_layers,
    has_own_head,
    method_of,
    require_eagle_pair,
    require_nextn_pair,
    takes_turns,
    whole_header,
)
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.engine.settings import EngineSettings
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, KVType
from specchat.llama.errors import LlamaError
from specchat.llama.gguf import Header, read_header
from specchat.llama.hidden import States
from specchat.llama.model import Model

if TYPE_CHECKING:
    from specchat.llama.trained_head import HeadContext

_Opened = list[Model | Context]


@dataclass(frozen=True, slots=True)
class HeadPlan:
    """The head that the settings ask for."""

    method: Method
    path: Path | None
    """Its file; None where it lies in the target's own."""
    layer_inputs: tuple[int, ...] = ()
    """The target's layers whose inputs it reads."""

    @property
    def nextn(self) -> bool:
        """Whether it reads what the target holds ready for a NextN layer."""
        return self.method is Method.MTP

    @property
    def drafts_trees(self) -> bool:
        """Whether it can go from one branch to another: what reads the target's cache, or takes turns, goes on only."""
        return self.method is not Method.MTP

    @property
    def in_target(self) -> bool:
        """Whether the target is to be loaded with its NextN layers."""
        return self.path is None


def planned_head(settings: EngineSettings) -> HeadPlan | None:
    """The head that `settings` ask for, by the headers of the files; None where they ask for none.

    A file that is named with `auto` or `draft` and holds a head is one to draft with; `auto` takes the head in the
    target's own file where no other draft is named. Raises HeadMismatch for a pair that doesn't fit, ModelUnusable.
    """
    method, path = _method(settings), settings.draft
    if method is None:
        return None
    target, name = whole_header(settings.target), settings.target.name
    if method in (Method.EAGLE, Method.P_EAGLE):
        if path is None:
            raise HeadMismatch("Drafting with an EAGLE-3 head needs its file: name it with --draft.")
        head = read_header(path)
        require_eagle_pair(path.name, head, name, target)
        if method is Method.P_EAGLE and not drafts_in_parallel(head):
            raise HeadMismatch(f"{path.name} was not trained to draft in parallel. Use --method eagle with it.")
        # A head that drafts in parallel can't draft token by token: it was trained with masks in place of tokens.
        return HeadPlan(Method.P_EAGLE if drafts_in_parallel(head) else Method.EAGLE, path, eagle_layers(head))
    if method is Method.MEDUSA:
        if path is None:
            raise HeadMismatch("Drafting with Medusa heads needs their file: name it with --draft.")
        from specchat.drafters.medusa import require_medusa_pair

        require_medusa_pair(path, name, target)
        return HeadPlan(method, path)
    if method is Method.DFLASH:
        return _planned_blocks(path, name, target)
    if path is None and not has_own_head(target):
        raise HeadMismatch(
            f"{name} has no NextN layer that can draft here. Name a file that holds one with --draft, or use another "
            "--method."
        )
    require_nextn_pair((path or settings.target).name, target if path is None else read_header(path), name, target)
    return HeadPlan(method, path)


def _planned_blocks(path: Path | None, name: str, target: Header) -> HeadPlan:
    """Drafting with the DFlash head in the file at `path` for the model `name`."""
    if path is None:
        raise HeadMismatch("Drafting with a DFlash head needs its file: name it with --draft.")
    head = read_header(path)
    require_dflash_pair(path.name, head, name, target)
    return HeadPlan(Method.DFLASH, path, tapped_layers(head))


def _method(settings: EngineSettings) -> Method | None:
    if settings.depth == 0:
        return None
    if settings.method in HEAD_METHODS:
        return settings.method
    if settings.method not in (Method.AUTO, Method.DRAFT):
        return None
    if settings.draft is not None:
        return method_of(settings.draft)
    return Method.MTP if settings.method is Method.AUTO and has_own_head(whole_header(settings.target)) else None


# A method's own modules are imported where it is used: the first token waits for every import.


def context_for(plan: HeadPlan | None, model: Model, params: ContextParams) -> Context:
    """The target's context, of a kind that keeps what the head reads. Raises what `Context` raises."""
    if plan is None or plan.method is not Method.MEDUSA:
        return Context(model, params)
    from specchat.llama.final_state import FinalStateContext

    return FinalStateContext(model, params)


def open_head(
    plan: HeadPlan, settings: EngineSettings, target: Context, opened: _Opened, cancelled: Callable[[], bool]
) -> Drafter:
    """The drafter of `plan`, which follows `target` pass by pass; `opened` takes over what must be closed again.

    `target` is what `context_for` made. Raises what `Model`, `HeadContext` and `open_medusa` raise.
    """
    if plan.method is not Method.MEDUSA:
        return _open_trained_layer(plan, settings, target, opened, cancelled)
    from specchat.drafters.medusa import open_medusa
    from specchat.llama.final_state import FinalStateContext

    if not isinstance(target, FinalStateContext) or plan.path is None:
        raise LlamaError("Medusa heads read a context that keeps final states.")
    return open_medusa(target, plan.path, gpu_layers=settings.gpu_layers)


def _open_trained_layer(
    plan: HeadPlan, settings: EngineSettings, target: Context, opened: _Opened, cancelled: Callable[[], bool]
) -> Drafter:
    from specchat.drafters.heads.drafter import AssistantDrafter, HeadDrafter
    from specchat.drafters.heads.rows import TargetRows
    from specchat.llama.trained_head import HeadModel

    model = target.model
    if plan.path is not None:
        model = HeadModel(plan.path, gpu_layers=settings.gpu_layers, load_mtp=plan.nextn)
        opened.append(model)
    head = head_context(plan.method, model, target, settings.draft_kv_type)
    opened.append(head)
    rows = TargetRows(head.n_features, target.n_batch + 1, _copier(target, plan))
    is_end = target.model.vocab.is_end_of_generation
    kind = AssistantDrafter if model.header.architecture == ASSISTANT else HeadDrafter
    leaves = target.params.n_seq_max if plan.drafts_trees else 1
    drafter = kind(head, rows, model.name, is_end, cancelled, method=plan.method, leaves=leaves)
    target.watch(drafter.take_pass)
    return drafter


def head_context(method: Method, model: Model, target: Context, kv_type: KVType) -> HeadContext:
    """The cache of the head in `model`, of the kind that it needs. Raises what `HeadContext` raises."""
    from specchat.llama.trained_head import EAGLE3_WIRING, NEXTN_WIRING, AssistantContext, HeadContext

    if method is Method.DFLASH:
        from specchat.llama.dflash import DFlashContext

        return DFlashContext(model, target, kv_type=kv_type)
    if model.header.architecture == ASSISTANT:
        return AssistantContext(model, target)
    if method is Method.MTP and takes_turns(model.header):
        from specchat.llama.chained_heads import ChainedHeadsContext

        return ChainedHeadsContext(model, target, kv_type=kv_type)
    return HeadContext(model, target, NEXTN_WIRING if method is Method.MTP else EAGLE3_WIRING, kv_type=kv_type)


def _copier(target: Context, plan: HeadPlan) -> Callable[[States], None]:
    """Copies the rows of the latest pass: the states of each layer beside one another, or a NextN layer's."""
    width = target.model.n_embd

    def copy_layers(rows: States) -> None:
        for i, layer in enumerate(plan.layer_inputs):
            rows[:, i * width : (i + 1) * width] = target.layer_input(layer)

    def copy_nextn(rows: States) -> None:
        np.copyto(rows, target.nextn_rows())

    return copy_nextn if plan.nextn else copy_layers
