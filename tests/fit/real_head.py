"""Loads a target and its trained head for real, in a process of its own, and writes what llama.cpp then holds.

The argument is one JSON object: target, head (a file, or null for one inside the target's), context. One pass is made,
since llama.cpp keeps the tapped layers only from the first on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import EngineSettings
from specchat.llama.context import Context
from specchat.llama.trained_head import HeadContext
from tests.fit.real_load import held


def settings(target: Path, head: Path | None, context: int) -> EngineSettings:
    return EngineSettings(target, head, Method.AUTO, draft_tokens=3, context=context)


def load(target: Path, head: Path | None, n_ctx: int) -> dict[str, list[int]]:
    """Weights, cache and compute of the target's context and of the head's."""
    engine = Engine(settings(target, head, n_ctx))
    ours, theirs = [context for context in engine._open if isinstance(context, Context)]
    assert isinstance(theirs, HeadContext)
    ours.decode([1, 2, 3], outputs=1)
    found = {"target": held(ours), "head": held(theirs)}
    engine.close()
    return found


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    head = None if wanted["head"] is None else Path(wanted["head"])
    sys.stdout.write(json.dumps(load(Path(wanted["target"]), head, wanted["context"])))
