"""Loads a pair for real, in a process of its own, and writes what llama.cpp then holds.

The argument is one JSON object: target, draft, contexts. For every context and type of cache an engine is made, and
weights, cache and compute of its two contexts are written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from specchat.drafters.method import Method
from specchat.drafters.model import ModelDrafter
from specchat.engine.engine import Engine
from specchat.engine.settings import EngineSettings
from specchat.llama.context import Context
from specchat.llama.context_params import KVType
from specchat.llama.no_alloc import memory_breakdown

DRAFT_TOKENS = 15


def held(context: Context) -> list[int]:
    parts = memory_breakdown(context.handle)
    return [sum(p.weights for p in parts), sum(p.cache for p in parts), sum(p.compute for p in parts)]


def load(target: Path, draft: Path, n_ctx: int, kv_type: KVType) -> dict[str, list[int]]:
    settings = EngineSettings(
        target=target,
        draft=draft,
        method=Method.DRAFT,
        draft_tokens=DRAFT_TOKENS,
        context=n_ctx,
        kv_type=kv_type,
        draft_kv_type=kv_type,
    )
    engine = Engine(settings)
    assert isinstance(engine.drafter, ModelDrafter)
    ours, drafts = [context for context in engine._open if isinstance(context, Context)]
    found = {"target": held(ours), "draft": held(drafts)}
    engine.close()
    return found


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    pair = Path(wanted["target"]), Path(wanted["draft"])
    loads = [(n_ctx, kv_type) for n_ctx in wanted["contexts"] for kv_type in KVType]
    sys.stdout.write(json.dumps({f"{n_ctx} {kind.name}": load(*pair, n_ctx, kind) for n_ctx, kind in loads}))
