"""The buffers of a trained head's graphs, estimated: few layers, so that fewer tensors live beside the widest stretch.

Fitted like those of whole models (specchat.fit.graphs), for NextN layers of `qwen35`, EAGLE-3 and DFlash heads and
Gemma 4's assistants; `tests/fit/test_heads.py` and `test_assistants.py` hold them to their bounds.
"""

from __future__ import annotations

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.heads.pairing import ASSISTANT
from specchat.fit.dimensions import Layer, Shape
from specchat.fit.graphs import Pass, feed_forward

_F32 = 4
_LEAST_ROTATION = 64
"""Side of the smallest matrix that turns keys or values before they are quantised; values have it in any case."""


def head_graph_bytes(shape: Shape, one: Pass, head: HeadKind) -> int:
    """The buffer that the graphs of a head's pass need where they are computed."""
    if head is HeadKind.MEDUSA:
        # Its products are a row each.
        return 0
    if shape.architecture == ASSISTANT:
        return _assistant_bytes(shape, one)
    layer = max(shape.layers, key=lambda layer: layer.inner)
    scores = 0 if one.flash else layer.heads * one.cells
    attention = one.masks + (scores + _attention(layer, shape.width, one, head)) * one.rows * _F32
    feed = _feed_forward(shape, layer, head) * one.rows * _F32
    vocabulary = shape.vocabulary if head is HeadKind.MTP else shape.draft_vocabulary
    beside = 2 if head is HeadKind.DFLASH else 4
    logits = (vocabulary * min(one.outputs, one.rows) + beside * shape.width * one.rows) * _F32
    # What each row sees is needed until the last layer attends.
    feed += one.masks if head is HeadKind.DFLASH and len(shape.layers) > 1 else 0
    # Logits of a reduced vocabulary are laid out over the target's, in a tensor that is there from the beginning.
    spread = shape.vocabulary if head is not HeadKind.MTP and shape.draft_vocabulary != shape.vocabulary else 0
    return max(attention, feed, logits) + spread * one.rows * _F32


def _attention(layer: Layer, width: int, one: Pass, head: HeadKind) -> int:
    """Elements a row that live at once while it attends, without scores and masks."""
    queries, cell = layer.queries, layer.keys + layer.values
    if head is HeadKind.MTP:
        # The gate is as wide as the queries.
        return 4 * queries + 2 * width if one.flash else 3 * queries + 2 * width + cell
    if head is HeadKind.DFLASH:
        return 2 * queries + 2 * width + cell
    # Token and state lie side by side.
    return max(2 * queries + 3 * width, 5 * width) if one.flash else 2 * queries + width + cell


def _feed_forward(shape: Shape, layer: Layer, head: HeadKind) -> int:
    if layer.sparse and shape.experts is not None:
        return feed_forward(shape, layer)
    return 3 * layer.inner + (5 * shape.width // 2 if head is HeadKind.MTP else 3 * shape.width)


def _assistant_bytes(shape: Shape, one: Pass) -> int:
    """The same for an assistant: its target's states come in at full width, and its own layers are narrow.

    The place that the states leave is mostly too small for queries or a feed-forward block: only what is `width` wide
    goes there.
    """
    too_small = shape.states < max(layer.queries for layer in shape.layers)
    left = max(shape.states if too_small else 0, 3 * shape.width)
    joined = 4 * shape.states + shape.width
    attention = max(
        2 * layer.queries + (0 if one.flash else layer.heads * (one.window_cells if layer.slides else one.cells))
        for layer in shape.layers
    )
    feed = 3 * max(layer.inner for layer in shape.layers)
    widest = max(joined, left + attention, left + feed) * one.rows
    logits = shape.vocabulary * min(one.outputs, one.rows) + shape.states * one.rows
    return one.masks + max(widest, logits) * _F32 + (_rotations(shape) if one.quantised else 0)


def _rotations(shape: Shape) -> int:
    """Matrices that turn keys and values of a quantised cache: for keys as large as a power of two that divides them.

    Sliding layers have theirs apart (`llama_kv_cache::build_input_k_rot`).
    """
    lengths = {layer.slides: layer.queries // layer.heads for layer in shape.layers}
    sides = (length & -length for length in lengths.values())
    return sum(side**2 + _LEAST_ROTATION**2 for side in sides) * _F32
