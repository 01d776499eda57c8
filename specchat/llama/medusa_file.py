"""Names in the GGUF file of Medusa heads: what `specchat.heads` writes and `specchat.llama.medusa` reads.

llama.cpp has no graph of this kind, so the architecture is this program's own. Head i predicts the token i + 1 places
after the one that the target's output matrix predicts: h ← h + SiLU(W·h + b) for each block, then a matrix (Cai et al.
2401.10774, section 2.1.1).
"""

from __future__ import annotations

from typing import Final

from specchat.llama.eagle3_file import TOKEN_IDS as TOKEN_IDS

ARCHITECTURE: Final = "medusa"
WIDTH: Final = "embedding_length"
TOKENS: Final = "vocab_size"
"""Of the target."""
HEADS: Final = "head_count"
BLOCKS: Final = "block_count"
"""Residual blocks of each head."""
SHARED_OUTPUT: Final = "output.weight"
"""One output matrix for all heads, where they have none of their own."""


def block_weight(head: int, block: int) -> str:
    """The name of W."""
    return f"head.{head}.block.{block}.weight"


def block_bias(head: int, block: int) -> str:
    """The name of b."""
    return f"head.{head}.block.{block}.bias"


def output(head: int) -> str:
    """The name of a head's own output matrix."""
    return f"head.{head}.output.weight"
