"""Sizes and kinds of a context."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from specchat.llama.errors import LlamaError

_MOST_SEQUENCES = 256


class KVType(IntEnum):
    """Element type of the KV cache (the `ggml_type` number)."""

    F16 = 1
    Q8_0 = 8


class FlashAttention(IntEnum):
    """`llama_flash_attn_type`."""

    AUTO = -1
    OFF = 0
    ON = 1


@dataclass(frozen=True, slots=True)
class ContextParams:
    """Sizes of a context; all counts are tokens (rows)."""

    n_ctx: int
    n_outputs_max: int
    """Most rows of logits that one pass will ever ask for: llama.cpp aborts beyond it."""
    threads: int
    n_batch: int = 512
    n_ubatch: int = 512
    n_seq_max: int = 1
    """Leaves of the widest tree that one pass will ever hold (`decode_tree`); 1: only chains."""
    n_rs_seq: int = 0
    """Snapshots of a recurrent state to roll back to: as many as tokens are ever taken back at once."""
    kv_type: KVType = KVType.F16
    flash_attention: FlashAttention | None = None
    """None: on where layers are offloaded, off on a CPU (half the time at 1k context), on for a quantised KV."""
    layer_tap: bool = False
    """Whether layers can be read and passes stopped early: about 1 % of a small model's step, so only where needed."""
    layer_inputs: tuple[int, ...] = ()
    """Layers whose inputs can be read after every pass (`Context.layer_input`), counted from 0."""
    nextn: bool = False
    """Whether what a NextN head takes can be read after every pass (`Context.nextn_rows`)."""

    def __post_init__(self) -> None:
        if min(self.n_ctx, self.n_outputs_max, self.threads, self.n_batch, self.n_ubatch) < 1:
            raise LlamaError("A context needs at least one cell, one row of logits, one thread and one batch row.")
        if self.kv_type is not KVType.F16 and self.flash_attention is FlashAttention.OFF:
            raise LlamaError("A quantised KV cache needs flash attention; it was switched off.")
        if not 1 <= self.n_seq_max <= min(self.n_outputs_max, _MOST_SEQUENCES):
            raise LlamaError(
                f"A tree has 1 to {_MOST_SEQUENCES} leaves and each needs a row of logits, of which there are "
                f"{self.n_outputs_max}; {self.n_seq_max} were asked for."
            )

    def kernel(self, *, offloads: bool) -> FlashAttention:
        """Whether attention runs fused, in a build that `offloads` to a GPU or not."""
        if self.kv_type is not KVType.F16:
            return FlashAttention.ON
        if self.flash_attention is not None:
            return self.flash_attention
        return FlashAttention.AUTO if offloads else FlashAttention.OFF
