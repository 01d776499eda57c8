"""Names in the GGUF file of an EAGLE-3 head, as llama.cpp's loader has them (src/models/eagle3.cpp), and two of ours.

Keys stand under the architecture's prefix.
"""

from __future__ import annotations

from typing import Final

ARCHITECTURE: Final = "eagle3"
N_TAPS: Final = 3
"""Layers of the target whose inputs a head reads: llama.cpp wants exactly so many."""
TAPPED_LAYERS: Final = "target_layers"
"""Which ones."""
TARGET_WIDTH: Final = "target_hidden_size"
TOKENS: Final = "vocab_size"
"""Of the target."""
TOKEN_IDS: Final = "d2t"
"""A tensor: the target's token for each row of the head's output matrix; without it, all in order."""
MASK_TOKEN: Final = "mask_token_id"
MASK_STATE: Final = "mask_state"
"""Keys of heads trained to draft in parallel: the token and the state that stand for what is unknown.

llama.cpp has no such keys; its graph needs none. It would refuse a tensor that it doesn't know.
"""
