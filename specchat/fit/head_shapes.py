"""The dimensions of trained heads, as models of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specchat.drafters.heads.pairing import ASSISTANT
from specchat.fit.dimensions import Layer, Shape, ShapeUnknown
from specchat.fit.placement import Weights
from specchat.llama import eagle3_file, medusa_file
from specchat.llama.gguf import Header

_FEED_FORWARD = 4
"""Times the width: what a feed-forward block has where nothing says so."""
ASSISTED: Final = "gemma4"
"""The architecture whose MTP heads are models of their own that look at its cache."""
_ASSISTANT_WIDTH, _ASSISTANT_LAYERS, _ASSISTANT_INNER = 1024, 4, 8192
"""Those of Gemma 4's assistants for the 12B, the 26B and the 31B."""


def nextn_shape(model: Shape, *, in_file: bool) -> Shape:
    """The layers of `model` that predict further tokens; `in_file`: in the target's file, so with its matrices.

    Raises ShapeUnknown for a model without such layers.
    """
    nextn = model.nextn
    if nextn is None:
        raise ShapeUnknown("The model has no layers that predict further tokens.")
    own = Weights(0, (), 0) if in_file else model.weights
    weights = replace(own, layers=nextn.weights)
    return replace(model, layers=nextn.layers, weights=weights, window=0, state=None, nextn=None)


def medusa_shape(header: Header) -> Shape:
    """Medusa heads: matrices that read a state, with neither cache nor graph of llama.cpp's."""
    width, tokens = header.number(medusa_file.WIDTH), header.number(medusa_file.TOKENS)
    if not width or not tokens:
        raise ShapeUnknown("The header of these Medusa heads doesn't give their width and vocabulary.")
    size = sum(place.n_bytes for place in header.tensors.values())
    still = Layer(heads=0, queries=0, keys=0, values=0, inner=0, attends=False, caches=False)
    return Shape(header.architecture, width, tokens, 0, (still,), Weights(0, (size,), 0))


def supposed_eagle(target: Shape, size: int) -> Shape:
    """An EAGLE-3 head for `target` of which only the `size` of its file is known: its one layer is as the target's.

    Its weights are all taken for the layer's, so that none are left on the host.
    """
    widest = max((layer for layer in target.layers if layer.attends), key=lambda layer: layer.keys)
    # Latent keys are of no use to a head: each of its heads has its own values.
    values = widest.values or widest.keys
    layer = Layer(
        heads=widest.heads,
        queries=widest.queries,
        keys=widest.keys,
        values=values,
        inner=widest.inner or _FEED_FORWARD * target.width,
    )
    return Shape(
        architecture=eagle3_file.ARCHITECTURE,
        width=target.width,
        vocabulary=target.vocabulary,
        trained_context=target.trained_context,
        layers=(layer,),
        weights=Weights(0, (size,), 0),
        draft_vocabulary=target.vocabulary,
    )


def supposed_assistant(target: Shape, size: int) -> Shape:
    """An assistant for `target` of which only the `size` of its file is known: it attends as the target's last layers.

    It reads their cells and has none of its own. Its weights are all taken for one layer's, so that none are left on
    the host.
    """
    last = target.layers[-_ASSISTANT_LAYERS:]
    layers = tuple(replace(layer, caches=False, sparse=False, inner=_ASSISTANT_INNER) for layer in last)
    return Shape(
        architecture=ASSISTANT,
        width=_ASSISTANT_WIDTH,
        vocabulary=target.vocabulary,
        trained_context=target.trained_context,
        layers=layers,
        weights=Weights(0, (size, *[0] * (len(layers) - 1)), 0),
        window=target.window,
        states=target.width,
    )
