"""Loads models for real, in a process of its own, and writes what llama.cpp then holds.

The argument is one JSON object: target, draft, contexts, whether an engine is to make them. Weights, cache and compute
of every context are printed, target and draft.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from specchat.drafters.method import Method
from specchat.drafters.model import ModelDrafter
from specchat.engine.engine import Engine
from specchat.engine.settings import EngineSettings
from specchat.engine.sizes import draft_params, target_params
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, KVType
from specchat.llama.model import Model
from specchat.llama.no_alloc import memory_breakdown

DRAFT_TOKENS = 15


def held(context: Context) -> list[int]:
    parts = memory_breakdown(context.handle)
    return [sum(p.weights for p in parts), sum(p.cache for p in parts), sum(p.compute for p in parts)]


def settings(arguments: dict[str, Any], context: int, kv_type: KVType) -> EngineSettings:
    paths = {name: Path(arguments[name]) for name in ("target", "draft")}
    return EngineSettings(**paths, method=Method.DRAFT, draft_tokens=DRAFT_TOKENS, context=context, kv_type=kv_type)


def by_hand(arguments: dict[str, Any]) -> dict[str, Any]:
    """Every context with every type of cache, of two models that are loaded once."""

    def made(model: Model, params: ContextParams) -> list[int]:
        with closing(Context(model, params)) as context:
            return held(context)

    found = {}
    with Model(Path(arguments["target"])) as target, Model(Path(arguments["draft"])) as draft:
        for n_ctx in arguments["contexts"]:
            for kv_type in KVType:
                chosen = settings(arguments, n_ctx, kv_type)
                params = target_params(chosen, n_ctx_train=target.n_ctx_train, recurrent=False, threads=1)
                ours, drafts = made(target, params), made(draft, draft_params(n_ctx, threads=1, kv_type=kv_type))
                found[f"{n_ctx} {kv_type.name}"] = {"target": ours, "draft": drafts}
    return found


def by_engine(arguments: dict[str, Any]) -> dict[str, Any]:
    """The contexts that an engine makes for itself."""
    found = {}
    for n_ctx in arguments["contexts"]:
        engine = Engine(settings(arguments, n_ctx, KVType.F16))
        assert isinstance(engine.drafter, ModelDrafter)
        contexts = [held_one for held_one in engine._open if isinstance(held_one, Context)]
        found[f"{n_ctx} F16"] = {"target": held(contexts[0]), "draft": held(contexts[1])}
        engine.close()
    return found


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps(by_engine(wanted) if wanted["engine"] else by_hand(wanted)))
