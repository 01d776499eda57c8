"""Names in the GGUF file of a DFlash head, as llama.cpp's loader has them (src/models/dflash.cpp).

Keys stand under the architecture's prefix, but for the mask's, which is one of the vocabulary's.
"""

from __future__ import annotations

from typing import Final

ARCHITECTURE: Final = "dflash"
TAPPED_LAYERS: Final = "target_layers"
"""The target's layers whose inputs a head reads: any number of them."""
BLOCK: Final = "block_size"
"""Tokens of the blocks that it was trained on: the last of the text, and masks."""
USUAL_BLOCK: Final = 16
"""Where the file doesn't say."""
MASK_TOKEN: Final = "tokenizer.ggml.mask_token_id"
CAUSAL: Final = "attention.causal"
ROPE_SECTIONS: Final = "rope.dimension_sections"
"""Of a head whose target counts positions in four ways (M-RoPE)."""
TOKEN_IDS: Final = "d2t"
FUSION: Final = "fc.weight"
"""The matrix that joins the layers' states."""
UNKNOWN_PARTS: Final = {
    "markov_w1.weight": "a Markov head (DSpark)",
    "selector_hidden.weight": "a selector (DFlash 2)",
    "output_hc_fn.weight": "the layers of a DeepSeek-V4 model (DSpark)",
}
"""Tensors of later kinds of the architecture, which draft in another way: what they are."""
