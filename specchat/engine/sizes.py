"""The sizes of the two contexts: asked for by the engine that loads, and by the check that says whether it fits."""

from __future__ import annotations

from specchat.drafters.method import Method
from specchat.engine.settings import DEFAULT_CONTEXT, EngineSettings
from specchat.llama.context_params import ContextParams, KVType

_DRAFT_UBATCH = 128
"""The draft reads its prompt in smaller pieces: a fourth of the compute buffer, at no loss of speed."""
_TREE_LEAVES = 4
"""Ends of a draft tree: a pass over eight rows costs little more than one on a card, and has no room for more."""
_SNAPSHOTS = 8
"""States of a recurrent model to roll back to: each is as large as the state itself."""


def target_params(
    settings: EngineSettings,
    *,
    n_ctx_train: int,
    recurrent: bool,
    threads: int,
    layer_inputs: tuple[int, ...] = (),
    nextn: bool = False,
    tree: bool = False,
) -> ContextParams:
    """The target's context, with as many rows, snapshots and taps as the method asks for.

    `n_ctx_train`: tokens that the model was trained for, 0 where the file doesn't say. `layer_inputs` and `nextn`:
    what a trained head reads of it; `tree`: whether it may draft trees.
    """
    depth = settings.depth
    return ContextParams(
        n_ctx=settings.context or min(n_ctx_train or DEFAULT_CONTEXT, DEFAULT_CONTEXT),
        n_outputs_max=depth + 1,
        n_seq_max=_leaves(depth) if tree else 1,
        threads=threads,
        n_rs_seq=min(depth, _SNAPSHOTS) if recurrent else 0,
        kv_type=settings.kv_type,
        layer_tap=settings.method is Method.EARLY_EXIT and not recurrent,
        layer_inputs=layer_inputs,
        nextn=nextn,
    )


def _leaves(depth: int) -> int:
    # One, two and four sequences take the same memory to the byte; three take more.
    return next(leaves for leaves in (_TREE_LEAVES, 2, 1) if leaves <= max(1, depth))


def draft_params(n_ctx: int, *, threads: int, kv_type: KVType = KVType.F16) -> ContextParams:
    """The draft's context, for a target with `n_ctx` tokens: one row of logits a pass."""
    return ContextParams(n_ctx=n_ctx, n_outputs_max=1, threads=threads, n_ubatch=_DRAFT_UBATCH, kv_type=kv_type)
