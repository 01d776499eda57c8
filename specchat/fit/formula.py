"""What an engine allocates, estimated from headers alone: for cards and builds that are not here.

Caches follow llama.cpp's own arithmetic (src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp)
to the byte. The buffers of the graphs are estimated (specchat.fit.graphs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.heads.pairing import ASSISTANT
from specchat.fit.demand import Bytes, Demand, ModelDemand
from specchat.fit.dimensions import Layer, Shape
from specchat.fit.graphs import Pass, graph_bytes, input_bytes
from specchat.fit.head_graphs import head_graph_bytes
from specchat.fit.head_rows import head_rows, target_rows
from specchat.fit.head_shapes import nextn_shape
from specchat.fit.request import FitRequest
from specchat.llama.context_params import KVType
from specchat.llama.eagle3_file import N_TAPS
from specchat.llama.errors import LlamaError

_CELL_PADDING = 256
_BLOCK = 32
"""Elements that q8_0 packs together, into 34 bytes."""
_F32 = 4


@dataclass(frozen=True, slots=True)
class _Context:
    """One context as the engine makes it."""

    cells: int
    kind: KVType
    flash: bool
    n_ubatch: int
    n_outputs_max: int
    n_rs_seq: int
    n_written: int
    """Rows that one pass writes to the cache at most."""


def _padded_cells(n: int) -> int:
    return -(-n // _CELL_PADDING) * _CELL_PADDING


def _target_context(request: FitRequest) -> _Context:
    return _Context(
        cells=_padded_cells(request.context),
        kind=request.kv_type,
        flash=request.uses_flash_attention(request.kv_type),
        n_ubatch=min(request.n_ubatch, request.context),
        n_outputs_max=request.n_outputs_max,
        n_rs_seq=request.n_rs_seq,
        n_written=min(request.n_ubatch, request.context),
    )


def _draft_context(request: FitRequest) -> _Context:
    return _Context(
        cells=_padded_cells(request.context),
        kind=request.draft_kv_type,
        flash=request.uses_flash_attention(request.draft_kv_type),
        n_ubatch=min(request.draft_ubatch, request.context),
        n_outputs_max=1,
        n_rs_seq=0,
        n_written=min(request.draft_ubatch, request.context),
    )


def _head_context(request: FitRequest, head: HeadKind, architecture: str) -> _Context:
    context = _draft_context(request)
    if architecture == ASSISTANT:
        # It looks at the target's cache.
        ours = _target_context(request)
        return replace(context, kind=ours.kind, flash=ours.flash, n_written=ours.n_written)
    # llama.cpp takes heads in a file of their own for encoders, which give out every row.
    every_row = head in (HeadKind.EAGLE, HeadKind.DFLASH)
    return replace(context, n_outputs_max=context.n_ubatch) if every_row else context


def _row(kind: KVType, elements: int) -> int:
    """Bytes of one cell's keys or values."""
    return elements * 2 if kind is KVType.F16 else elements // _BLOCK * 34


def _require_whole_blocks(shape: Shape, kind: KVType) -> None:
    """Refuse what llama.cpp refuses (`llama_init_from_model`)."""
    heads = (layer.queries // layer.heads for layer in shape.layers if layer.heads and layer.values)
    odd = 0 if kind is KVType.F16 else next((length for length in heads if length % _BLOCK), 0)
    if odd:
        raise LlamaError(
            f"This {shape.architecture} model can't have a quantised KV cache: its heads of {odd} elements don't "
            f"divide into blocks of {_BLOCK}. Use --kv f16, for a draft --draft-kv f16."
        )


def _window_cells(shape: Shape, context: _Context) -> int:
    """Cells of a sliding layer: the window and one pass, with `swa_full` off."""
    return _padded_cells(min(context.cells, shape.window + context.n_written))


def _state_bytes(shape: Shape) -> int:
    """One recurrent layer's running state."""
    return 0 if shape.state is None else (shape.state.convolution + shape.state.state) * _F32


def _snapshots(shape: Shape, n_rs_seq: int) -> int:
    """Earlier states that a recurrent layer keeps."""
    return n_rs_seq if shape.state is not None and shape.state.rolls_back else 0


def _layer_cache(shape: Shape, layer: Layer, context: _Context, widest: int) -> int:
    # Without flash attention values lie transposed, each layer's as wide as the widest.
    values = layer.values if context.flash or layer.values == 0 else widest
    cells = _window_cells(shape, context) if layer.slides else context.cells
    attention = cells * (_row(context.kind, layer.keys) + _row(context.kind, values)) if layer.caches else 0
    return attention + (_state_bytes(shape) if layer.recurs else 0)


def _demand(shape: Shape, context: _Context, request: FitRequest, head: HeadKind | None = None) -> ModelDemand:
    """One model's share, on the device and on the host; `head`: what kind of head it is."""
    _require_whole_blocks(shape, context.kind)
    layers = request.gpu_layers if request.on_device else 0
    widest = max(layer.values for layer in shape.layers)
    cache, rollback = {True: 0, False: 0}, {True: 0, False: 0}
    for number, layer in enumerate(shape.layers):
        place = shape.weights.places_layer(number, layers)
        cache[place] += _layer_cache(shape, layer, context, widest)
        rollback[place] += _snapshots(shape, context.n_rs_seq) * _state_bytes(shape) if layer.recurs else 0
    compute = _compute(shape, context, request, layers, head)
    return ModelDemand(
        device=Bytes(shape.weights.on_device(layers), cache[True], compute[True], rollback=rollback[True]),
        host=Bytes(shape.weights.on_host(layers), cache[False], compute[False], rollback=rollback[False]),
    )


def _compute(
    shape: Shape, context: _Context, request: FitRequest, layers: int, head: HeadKind | None
) -> dict[bool, int]:
    """Buffers of the graphs on the device (True) and on the host (False)."""
    window = _window_cells(shape, context) if any(layer.slides for layer in shape.layers) else 0
    one = Pass(
        rows=context.n_ubatch,
        outputs=context.n_outputs_max,
        cells=context.cells,
        window_cells=window,
        flash=context.flash,
        n_rs_seq=context.n_rs_seq,
        quantised=context.kind is not KVType.F16,
    )
    whole = graph_bytes(shape, one) if head is None else head_graph_bytes(shape, one, head)
    if not request.on_device:
        return {True: 0, False: whole}
    places = [shape.weights.places_layer(number, layers) for number in range(len(shape.layers))]
    on_device = whole if any(places) or shape.weights.on_device(layers) else 0
    if on_device and context.kind is not KVType.F16:
        # CUDA's kernels for quantised caches first unpack one layer's keys and values (ggml-cuda/fattn.cu).
        on_device += 2 * max(
            (window if layer.slides else context.cells) * (layer.keys + layer.values)
            for layer in shape.layers
            if layer.attends
        )
    if on_device and not all(places):
        # Long batches compute even the host's layers on the GPU: their weights visit it one tensor at a time.
        on_device += shape.weights.largest
    return {True: on_device, False: input_bytes(shape, one) if all(places) else whole}


def demand_of_shapes(target: Shape, draft: Shape | None, request: FitRequest, head: HeadKind | None = None) -> Demand:
    """What a target and its draft take, estimated from their shapes.

    `head`: what kind of trained head `draft` is; an MTP head without a `draft` is in the target's file. Raises
    LlamaError for a quantised cache that llama.cpp would refuse, ShapeUnknown for a head that has no known shape.
    """
    small = _drafting_shape(target, draft, head)
    taps = (draft and draft.taps) or N_TAPS
    theirs = None if small is None else _draft_demand(small, request, head)
    return Demand(
        target=_demand(target, _target_context(request), request) + target_rows(head, target.width, request, taps=taps),
        draft=theirs,
        context=request.context,
        exact=False,
        on_device=request.on_device,
        head=head,
    )


def _draft_demand(small: Shape, request: FitRequest, head: HeadKind | None) -> ModelDemand:
    """The share of what drafts: a model, or a head with the states that it hands out."""
    context = _draft_context(request) if head is None else _head_context(request, head, small.architecture)
    return _demand(small, context, request, head) + head_rows(head, small.states or small.width, request)


def _drafting_shape(target: Shape, draft: Shape | None, head: HeadKind | None) -> Shape | None:
    if head is HeadKind.MTP and (draft is None or draft.architecture != ASSISTANT):
        return nextn_shape(target, in_file=True) if draft is None else nextn_shape(draft, in_file=False)
    return draft
