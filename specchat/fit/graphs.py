"""The buffers of a model's graphs, estimated: each is as large as the widest stretch of one layer.

The counts of tensors that live at once were fitted to llama.cpp's own allocator on a CPU build (vendored llama.cpp
0c1e57098): for 15 architectures the estimate was 6 % below to 10 % above it, and up to 40 % above for experts whose
outputs are many times wider than they are. `tests/fit/test_formula.py` holds it to these bounds. A GPU build differs
by some percent more.
"""

from __future__ import annotations

from dataclasses import dataclass

from specchat.fit.dimensions import Layer, RunningState, Shape

_F32 = 4


@dataclass(frozen=True, slots=True)
class Pass:
    """The largest pass that a context reserves for; counts are rows, cells in the cache."""

    rows: int
    outputs: int
    cells: int
    window_cells: int
    """Cells of sliding layers; 0 without any."""
    flash: bool
    n_rs_seq: int
    quantised: bool = False
    """Whether the cache is."""

    @property
    def masks(self) -> int:
        """Bytes that say which cell each row sees: f16 for flash attention, else f32."""
        return (self.cells + self.window_cells) * self.rows * (2 if self.flash else _F32)


def graph_bytes(shape: Shape, one: Pass) -> int:
    """The buffer that the graphs of the pass `one` need where they are computed."""
    masks = one.masks if any(layer.attends for layer in shape.layers) else 0
    widest = max(_widest(shape, layer, one) for layer in shape.layers)
    logits = shape.vocabulary * min(one.outputs, one.rows) + 4 * shape.width * one.rows
    return max(masks + widest * one.rows * _F32, logits * _F32)


def input_bytes(shape: Shape, one: Pass) -> int:
    """What the host keeps for a pass that is computed on a device: masks and embedded rows."""
    return one.masks + (shape.states or shape.width) * one.rows * _F32


def _widest(shape: Shape, layer: Layer, one: Pass) -> int:
    """Elements a row that live at once in one layer."""
    # Without flash attention each value's place in the cache is an index of 8 bytes.
    places = 0 if one.flash else 2 * layer.values
    recurrent = _recurrent(shape.state, one) if layer.recurs and shape.state is not None else 0
    attention = _attention(shape, layer, one) if layer.attends else 0
    return max(attention, places + max(recurrent, feed_forward(shape, layer)))


def feed_forward(shape: Shape, layer: Layer) -> int:
    """While the feed-forward block runs: gate, up, their product, and what waits beside."""
    if not layer.sparse or shape.experts is None:
        return 3 * layer.inner + 4 * shape.width
    inner, width = shape.experts.used * shape.experts.inner, shape.experts.used * shape.width
    # The experts' outputs fit into the space of gate and up, or come on top.
    beside = 5 * shape.width + (width if width > 2 * inner else 0)
    return max(3 * inner + beside, 3 * shape.experts.shared + 4 * shape.width)


def _recurrent(state: RunningState, one: Pass) -> int:
    if not (state.rolls_back and one.n_rs_seq):
        return state.widest + (0 if state.delta_net else state.state // one.rows)
    # The kernel gives out its snapshots beside its rows: few fit where the convolution's channels were.
    snapshots = state.state * (1 + one.n_rs_seq) // one.rows
    return state.widest + (state.inner + snapshots if snapshots >= state.channels else 0)


def _attention(shape: Shape, layer: Layer, one: Pass) -> int:
    cells = one.window_cells if layer.slides else one.cells
    scores = 0 if one.flash else layer.heads * cells
    if layer.values == 0:
        # Latent keys: each head's query is stretched to their length, and lives beside its first form.
        return scores + 2 * layer.heads * layer.keys + 2 * layer.queries + 2 * shape.width
    return scores + 2 * layer.queries + layer.keys + layer.values + (3 if one.flash else 4) * shape.width
