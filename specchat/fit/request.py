"""What an engine is about to ask of llama.cpp, as far as memory depends on it."""

from __future__ import annotations

from dataclasses import dataclass

from specchat.llama.context_params import KVType

ALL_LAYERS = -1
LEAST_BATCH = 512
"""Rows that a call may have at least (`ContextParams.n_batch`)."""


class FitRequestError(ValueError):
    """A request that no engine could make; the message says why."""


@dataclass(frozen=True, slots=True)
class FitRequest:
    """Sizes of the two contexts and where the layers go; all counts are tokens (rows).

    The defaults are what the engine asks for (engine/drafting.py, llama/trained_head.py). Raises FitRequestError.
    """

    context: int
    """Cells of the target's cache; the draft's context has as many."""
    kv_type: KVType = KVType.F16
    draft_kv_type: KVType = KVType.F16
    gpu_layers: int = ALL_LAYERS
    """Layers on the GPU, the output counted as one; −1: all. Only read with `on_device`."""
    flash_attention: bool = False
    """For contexts with an f16 cache; a quantised cache always has it (`uses_flash_attention`)."""
    n_outputs_max: int = 1
    """Most rows of logits of one pass of the target: drafted tokens + 1. The draft's is 1."""
    n_ubatch: int = 512
    draft_ubatch: int = 128
    """Rows of a pass of the draft model, or of the trained head."""
    n_rs_seq: int = 0
    """Snapshots of a recurrent target's state; llama.cpp ignores it for other targets. The draft has none."""
    on_device: bool = False
    """Plan for a full GPU build, whatever build is installed; otherwise everything is on the host."""

    def __post_init__(self) -> None:
        counts = (self.context, self.n_outputs_max, self.n_ubatch, self.draft_ubatch)
        if min(counts) < 1 or self.n_rs_seq < 0 or self.gpu_layers < ALL_LAYERS:
            raise FitRequestError("A context needs at least one cell, one row of logits and one batch row.")

    @property
    def n_batch(self) -> int:
        """Most rows of one call."""
        return max(LEAST_BATCH, self.n_ubatch)

    def uses_flash_attention(self, kv_type: KVType) -> bool:
        """Whether a context with a cache of `kv_type` computes with flash attention."""
        return self.flash_attention or kv_type is not KVType.F16
