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
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from specchat.fit.request import FitRequest
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, FlashAttention, KVType
from specchat.llama.devices import device_memory
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gpus import Gpu, gpus
from specchat.llama.library import library
from specchat.llama.no_alloc import BreakdownMissing, BufferBytes, UnloadedModel, memory_breakdown

_LEAST_BATCH = 512


class Probe:
    """Answers questions; keeps the models of the last one open."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, int], UnloadedModel] = {}

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """One answer; what can't be answered is named under `error`, with a sentence."""
        try:
            if question["ask"] == "devices":
                return {"offloads": library().offloads, "gpus": [asdict(gpu) for gpu in _gpus()]}
            return self._measured(question)
        except BreakdownMissing as error:
            return {"error": "unavailable", "sentence": str(error)}
        except ModelUnusable as error:
            return {"error": "unusable", "sentence": str(error)}
        except LlamaError as error:
            return {"error": "refused", "sentence": str(error)}

    def _measured(self, question: dict[str, Any]) -> dict[str, Any]:
        request = request_from(question["request"])
        paths = [question["target"], *([question["draft"]] if question["draft"] is not None else [])]
        models = self._open([(path, request.gpu_layers) for path in paths])
        bytes_of = [_bytes_of(models[0], target_context(request, recurrent=models[0].recurrent))]
        bytes_of += [_bytes_of(draft, draft_context(request)) for draft in models[1:]]
        return {"target": bytes_of[0], "draft": bytes_of[1] if len(bytes_of) > 1 else None}

    def _open(self, wanted: list[tuple[str, int]]) -> list[UnloadedModel]:
        for key in [key for key in self._models if key not in wanted and key[1] != wanted[0][1]]:
            self._models.pop(key).close()
        for path, gpu_layers in wanted:
            if (path, gpu_layers) not in self._models:
                self._models[path, gpu_layers] = UnloadedModel(Path(path), gpu_layers=gpu_layers)
        return [self._models[key] for key in wanted]


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
        n_batch=max(_LEAST_BATCH, request.n_ubatch),
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
        n_batch=max(_LEAST_BATCH, request.draft_ubatch),
        n_ubatch=request.draft_ubatch,
        kv_type=request.draft_kv_type,
        flash_attention=_flash_attention(request, request.draft_kv_type),
    )


def _flash_attention(request: FitRequest, kv_type: KVType) -> FlashAttention | None:
    # What this build chooses by itself is left to it: llama.cpp may find that a layer can't.
    if kv_type is not KVType.F16 or request.flash_attention == library().offloads:
        return None
    return FlashAttention.ON if request.flash_attention else FlashAttention.OFF


def _bytes_of(model: UnloadedModel, params: ContextParams) -> dict[str, list[int]]:
    with closing(Context(model, params)) as context:
        found = memory_breakdown(context.handle)
    return {"device": _sum(part for part in found if part.on_gpu), "host": _sum(p for p in found if not p.on_gpu)}


def _sum(parts: Iterable[BufferBytes]) -> list[int]:
    rows = [(part.weights, part.cache, part.compute) for part in parts]
    return [sum(column) for column in zip(*rows, strict=True)] or [0, 0, 0]


def _gpus() -> list[Gpu]:
    try:
        return gpus()
    except AttributeError:
        # No way from libllama to the registry on this system: the first GPU is known all the same.
        memory = device_memory()
        return [Gpu(memory.device, memory.free_bytes, memory.free_bytes + memory.used_bytes, "")]


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
