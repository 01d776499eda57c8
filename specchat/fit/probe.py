"""The process that asks llama.cpp what a plan would allocate: questions come on stdin, answers leave on stdout.

llama.cpp aborts its process on some files, and a GPU's driver keeps memory as long as the process lives: both end with
the probe. One JSON object a line, each way; models stay open between questions, so a search over contexts loads once.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.heads.block_pairing import tapped_layers
from specchat.drafters.method import Method
from specchat.engine.heads import head_context
from specchat.fit.demand import Bytes, ModelDemand
from specchat.fit.head_rows import head_rows, heads_supported, target_rows
from specchat.fit.request import LEAST_BATCH, FitRequest
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, FlashAttention, KVType
from specchat.llama.eagle3_file import N_TAPS
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.gpus import gpus
from specchat.llama.library import library
from specchat.llama.no_alloc import (
    BreakdownMissing,
    BufferBytes,
    UnloadedModel,
    memory_breakdown,
)

_METHODS = {HeadKind.MTP: Method.MTP, HeadKind.EAGLE: Method.EAGLE, HeadKind.DFLASH: Method.DFLASH}
"""A method that drafts with each kind of head that llama.cpp computes."""
_SHORT = 256
"""Cells of a context that is made for its states alone."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One model to open: its file, how much of it goes to a GPU, and whether its NextN layers are loaded."""

    path: str
    gpu_layers: int
    nextn: bool = False


class Probe:
    """Answers questions; keeps the models of the last one open."""

    def __init__(self) -> None:
        self._models: dict[_Wanted, UnloadedModel] = {}
        self._states: dict[_Wanted, ModelDemand] = {}
        """What one more state of a recurrent model takes."""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """One answer; what can't be answered is named under `error`, with a sentence."""
        try:
            if question["ask"] == "devices":
                devices = {"offloads": library().offloads, "gpus": [asdict(gpu) for gpu in gpus()]}
                return {**devices, "heads": heads_supported()}
            return self._measured(question)
        except BreakdownMissing as error:
            return {"error": "unavailable", "sentence": str(error)}
        except ModelUnusable as error:
            return {"error": "unusable", "sentence": str(error)}
        except LlamaError as error:
            return {"error": "refused", "sentence": str(error)}

    def _measured(self, question: dict[str, Any]) -> dict[str, Any]:
        request, draft = request_from(question["request"]), question["draft"]
        head = None if question["head"] is None else HeadKind(question["head"])
        target = _Wanted(question["target"], request.gpu_layers)
        # A head in the target's file is that file once more, with the layers that are else left out.
        drafts = replace(target, path=draft or target.path, nextn=head is HeadKind.MTP)
        opens = head is HeadKind.MTP or (draft is not None and head is not HeadKind.MEDUSA)
        wanted = [target, *([drafts] if opens else [])]
        models = self._open(wanted)
        params = target_context(request, recurrent=models[0].recurrent)
        with closing(Context(models[0], params)) as context:
            ours = _split_off(_demand_of(context), self._rollback(target, models[0], params))
            theirs = _draft_demand(models[1], context, request, head) if len(models) > 1 else None
        if head is HeadKind.MEDUSA:
            theirs = _matrices(Path(draft), request)
        elif theirs is not None and draft is None:
            theirs = _without_weights(theirs, ours)
        # Layers that a head names twice are kept once.
        taps = len(set(tapped_layers(models[1].header))) if head is HeadKind.DFLASH else N_TAPS
        ours += target_rows(head, models[0].n_embd, request, taps=taps)
        return {"target": asdict(ours), "draft": None if theirs is None else asdict(theirs)}

    def _open(self, wanted: list[_Wanted]) -> list[UnloadedModel]:
        gpu_layers = wanted[0].gpu_layers
        for key in [key for key in self._models if key not in wanted and key.gpu_layers != gpu_layers]:
            self._models.pop(key).close()
        for key in wanted:
            if key not in self._models:
                self._models[key] = UnloadedModel(Path(key.path), gpu_layers=key.gpu_layers, load_mtp=key.nextn)
        return [self._models[key] for key in wanted]

    def _rollback(self, key: _Wanted, model: UnloadedModel, params: ContextParams) -> ModelDemand:
        """What the snapshots of a context's running state take: as many as llama.cpp really grants."""
        if not params.n_rs_seq:
            return ModelDemand()
        if key not in self._states:
            small = replace(params, n_ctx=_SHORT, n_outputs_max=1)
            without, one = (_demand_in(Context(model, replace(small, n_rs_seq=n))) for n in (0, 1))
            self._states[key] = ModelDemand(
                Bytes(rollback=one.device.cache - without.device.cache),
                Bytes(rollback=one.host.cache - without.host.cache),
            )
        state, n = self._states[key], params.n_rs_seq
        return ModelDemand(Bytes(rollback=n * state.device.rollback), Bytes(rollback=n * state.host.rollback))


def _split_off(whole: ModelDemand, rollback: ModelDemand) -> ModelDemand:
    """`whole` with the snapshots' part of its cache named."""

    def side(part: Bytes, snapshots: int) -> Bytes:
        return replace(part, cache=part.cache - snapshots, rollback=snapshots)

    return ModelDemand(
        side(whole.device, rollback.device.rollback),
        side(whole.host, rollback.host.rollback),
    )


def _without_weights(head: ModelDemand, target: ModelDemand) -> ModelDemand:
    """A head that shares its model with the target: only what it loads besides is its own."""
    return ModelDemand(
        replace(head.device, weights=head.device.weights - target.device.weights),
        replace(head.host, weights=head.host.weights - target.host.weights),
    )


def _draft_demand(model: UnloadedModel, target: Context, request: FitRequest, head: HeadKind | None) -> ModelDemand:
    if head is None:
        return _demand_in(Context(model, draft_context(request)))
    context = head_context(_METHODS[head], model, target, request.draft_kv_type)
    # An assistant gives states of its target's width.
    width = model.header.number("embedding_length_out") or model.n_embd
    return _demand_in(context) + head_rows(head, width, request)


def _matrices(path: Path, request: FitRequest) -> ModelDemand:
    """Medusa heads, which are computed without llama.cpp."""
    weights = Bytes(sum(place.n_bytes for place in read_header(path).tensors.values()))
    on_gpu = library().offloads and request.gpu_layers != 0
    return ModelDemand(device=weights) if on_gpu else ModelDemand(host=weights)


def _demand_in(context: Context) -> ModelDemand:
    with closing(context):
        return _demand_of(context)


def request_from(values: dict[str, Any]) -> FitRequest:
    """A request as it travels (`asdict`)."""
    kinds = {key: KVType(values[key]) for key in ("kv_type", "draft_kv_type")}
    return FitRequest(**{**values, **kinds})


def target_context(request: FitRequest, *, recurrent: bool) -> ContextParams:
    """The target's context as the engine makes it."""
    return ContextParams(
        n_ctx=request.context,
        n_outputs_max=request.n_outputs_max,
        threads=1,
        n_batch=request.n_batch,
        n_ubatch=request.n_ubatch,
        n_rs_seq=request.n_rs_seq if recurrent else 0,
        kv_type=request.kv_type,
        flash_attention=_flash_attention(request, request.kv_type),
    )


def draft_context(request: FitRequest) -> ContextParams:
    """The draft's context as the engine makes it."""
    return ContextParams(
        n_ctx=request.context,
        n_outputs_max=1,
        threads=1,
        n_batch=max(LEAST_BATCH, request.draft_ubatch),
        n_ubatch=request.draft_ubatch,
        kv_type=request.draft_kv_type,
        flash_attention=_flash_attention(request, request.draft_kv_type),
    )


def _flash_attention(request: FitRequest, kv_type: KVType) -> FlashAttention | None:
    # What this build chooses by itself is left to it: llama.cpp may find that a layer can't.
    if kv_type is not KVType.F16 or request.flash_attention == library().offloads:
        return None
    return FlashAttention.ON if request.flash_attention else FlashAttention.OFF


def _demand_of(context: Context) -> ModelDemand:
    found = memory_breakdown(context.handle)
    return ModelDemand(_sum(part for part in found if part.on_gpu), _sum(part for part in found if not part.on_gpu))


def _sum(parts: Iterable[BufferBytes]) -> Bytes:
    return sum((Bytes(part.weights, part.cache, part.compute) for part in parts), Bytes())


def serve(questions: Iterable[str], answers: TextIO) -> None:
    """Answer until the questions end."""
    probe = Probe()
    for line in questions:
        answers.write(json.dumps(probe.answer(json.loads(line))) + "\n")
        answers.flush()


def main() -> None:
    """Run the probe; whatever a driver prints goes nowhere instead of between the answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
