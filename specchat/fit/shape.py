"""The dimensions of a model that decide what it takes, read from its header.

Follows llama.cpp's `load_hparams` and the `load_arch_hparams` of its architectures (src/models/*.cpp).
"""

from __future__ import annotations

from typing import Final

from specchat.drafters.heads.pairing import ASSISTANT
from specchat.fit.dimensions import Experts, Layer, NextN, RunningState, Shape, ShapeUnknown
from specchat.fit.head_shapes import medusa_shape
from specchat.fit.placement import nextn_weights, weights_of
from specchat.llama import dflash_file, eagle3_file
from specchat.llama.gguf import Header
from specchat.llama.medusa_file import ARCHITECTURE as MEDUSA

_RECURRENT: Final = frozenset(("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"))
_INTERVAL: Final = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
"""Hybrids where every n-th layer attends, if the header doesn't say which."""
_BY_KV_HEADS: Final = frozenset(
    ("jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe", "kimi-linear")
)
"""Hybrids where the layers without KV heads keep a running state."""
_ROLLS_BACK: Final = frozenset(("qwen35", "qwen35moe", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"))
"""Architectures with snapshots of the running state (`llm_arch_supports_rs_rollback`); the others ignore `n_rs_seq`."""
_WINDOWS: Final = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone-moe": (4, False),
    "exaone4": (4, False), "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False), "gpt-oss": (2, False),
    "laguna": (4, True), "llama4": (4, False), "mellum": (4, False), "muse-glimmer": (4, False), "olmo2": (4, False),
    "plamo3": (8, False), "smallthinker": (4, True),
}  # fmt: skip
"""Architectures with sliding windows: one layer of so many sees everything, the first (True) or the last."""
_PER_LAYER_WINDOWS: Final = frozenset(("gemma4", ASSISTANT, "granite_swa", "maple", "mimo2", "spark2_5", "step35"))
"""Those whose header names the sliding layers one by one."""
_FIXED_WINDOW: Final = {"llama4": 8192, "smallthinker": 4096}
_DEFAULT_WINDOW: Final = {"gemma2": 4096, "exaone4": 4096, "exaone-moe": 128, "llama4": 8192}
_OTHER_MEMORY: Final = frozenset(
    (
        "bailingmoe3", "deepseek32", "deepseek4", "dots3note", "glm-dsa", "glm5-next",
        "graniteswitch", "hy_v4", "kimi-k3", "minimax-m3", "qwen4exp",
    )
)  # fmt: skip
"""Architectures with a memory of their own kind, which no formula here knows."""
_HEADS: Final = frozenset((eagle3_file.ARCHITECTURE, dflash_file.ARCHITECTURE))
"""Heads in a file of their own that may draft fewer tokens than their target has."""


class _Hyper:
    """Typed reading of one header's hyperparameters."""

    def __init__(self, header: Header) -> None:
        self.header = header

    def number(self, key: str, default: int = 0) -> int:
        value = self.header.of_architecture(key)
        return int(value) if isinstance(value, int | float) else default

    def per_layer(self, key: str, layers: int, default: int) -> list[int]:
        """One value a layer: llama.cpp takes a single one for all of them."""
        values = self.header.array_of_architecture(key)
        if values is None:
            return [self.number(key, default)] * layers
        if len(values) < layers:
            raise ShapeUnknown(f"The header gives {key} for {len(values)} of {layers} layers.")
        return [int(value) for value in values[:layers]]

    def last(self, key: str, default: int) -> int:
        """The value of the last layer."""
        values = self.header.array_of_architecture(key)
        return int(values[-1]) if values else self.number(key, default)


def _sliding(hyper: _Hyper, layers: int, recurs: list[bool]) -> tuple[int, list[bool]]:
    """The window and the layers that have it."""
    architecture, none = hyper.header.architecture, (0, [False] * layers)
    window = hyper.number("attention.sliding_window", _DEFAULT_WINDOW.get(architecture, 0))
    if window <= 0 or (architecture == "exaone4" and layers != 64):
        return none
    if architecture == "lfm2":
        return window, [not recurrent for recurrent in recurs]
    if architecture not in _WINDOWS and architecture not in _PER_LAYER_WINDOWS:
        return none
    pattern = hyper.header.array_of_architecture("attention.sliding_window_pattern")
    if pattern is not None:
        return window, [bool(value) for value in (*pattern, *[False] * layers)[:layers]]
    if architecture in _PER_LAYER_WINDOWS:
        raise ShapeUnknown("The header doesn't say which layers have a sliding window.")
    default, first_is_dense = _WINDOWS[architecture]
    every = hyper.number("attention.sliding_window_pattern", default)
    dense = 0 if first_is_dense else every - 1
    sliding = [every == 0 or layer % every != dense for layer in range(layers)]
    return _FIXED_WINDOW.get(architecture, window), sliding


def _recurring(hyper: _Hyper, layers: int, kv_heads: list[int], inner: list[int]) -> list[bool]:
    """The layers that keep a running state."""
    architecture = hyper.header.architecture
    if architecture in _RECURRENT or architecture == "falcon-h1":
        return [True] * layers
    if architecture.startswith("nemotron_h"):
        return [n == 0 and width == 0 for n, width in zip(kv_heads, inner, strict=True)]
    if architecture in _BY_KV_HEADS:
        return [n == 0 for n in kv_heads]
    if architecture not in _INTERVAL:
        return [False] * layers
    named = hyper.header.array_of_architecture("attention.recurrent_layers")
    if named is not None and len(named) >= layers:
        return [bool(value) for value in named[:layers]]
    interval = hyper.number("full_attention_interval", _INTERVAL[architecture])
    return [(layer + 1) % interval != 0 for layer in range(layers)]


def _attending(hyper: _Hyper, layers: int, recurs: list[bool], inner: list[int]) -> list[bool]:
    """The layers that look at other positions' keys."""
    architecture = hyper.header.architecture
    if architecture == "falcon-h1":
        return [True] * layers
    if architecture.startswith("nemotron_h"):
        return [not recurrent and width == 0 for recurrent, width in zip(recurs, inner, strict=True)]
    return [not recurrent for recurrent in recurs]


def _with_own_cells(hyper: _Hyper, layers: int) -> int:
    """How many layers, from the first, have cells of their own; later ones attend to those of earlier ones."""
    if hyper.header.architecture == "gemma3n":
        return 20
    if hyper.header.architecture == ASSISTANT:
        return 0
    shared = hyper.number("attention.shared_kv_layers") if hyper.header.architecture == "gemma4" else 0
    return layers - shared


def _state(hyper: _Hyper, width: int, heads: int) -> RunningState | None:
    """`llama_hparams::n_embd_r` and `n_embd_s`; `widest` is fitted."""
    architecture, kernel = hyper.header.architecture, hyper.number("ssm.conv_kernel")
    back = architecture in _ROLLS_BACK
    if head := hyper.number("wkv.head_size"):
        shifts = hyper.number("token_shift_count", 2)
        return RunningState(shifts * width, width * head, 8 * width, width, width, back)
    if short := hyper.number("shortconv.l_cache"):
        return RunningState(width * (short - 1), 0, 6 * width, width, width, back)
    if head := hyper.number("kda.head_dim"):
        inner, kernel = heads * head, kernel or 4
        widest = 9 * inner + 3 * width
        return RunningState((kernel - 1) * 3 * inner, head * inner, widest, 3 * inner, inner, back, delta_net=True)
    if architecture == "minimax-01":
        head = hyper.number("attention.key_length", width // max(heads, 1))
        inner = heads * head
        return RunningState(0, head * inner, 6 * inner + 3 * width, inner, inner, back)
    inner, state = hyper.number("ssm.inner_size"), hyper.number("ssm.state_size")
    channels = inner + 2 * hyper.number("ssm.group_count") * state
    delta_net = architecture in _INTERVAL
    if delta_net:
        # Holds its joint projection three times.
        widest = 3 * channels + inner // 8 + 3 * width
    else:
        # Holds all that it projects, then the convolution's channels and its own inputs twice.
        widest = 3 * channels + 3 * inner + hyper.number("ssm.time_step_rank") + width
    return RunningState((kernel - 1) * channels, state * inner, widest, channels, inner, back, delta_net)


def _experts(hyper: _Hyper, layers: int, inner: list[int]) -> Experts | None:
    count = hyper.number("expert_count")
    if count == 0:
        return None
    used = max(hyper.per_layer("expert_used_count", layers, 0))
    one = max(hyper.per_layer("expert_feed_forward_length", layers, 0)) or max(inner) // max(used, 1)
    shared = hyper.number("expert_shared_feed_forward_length", one * hyper.number("expert_shared_count"))
    return Experts(count, used, one, shared)


def _vocabulary(header: Header) -> int:
    """Rows of the output: those of its matrix."""
    if header.architecture in _HEADS:
        # Its logits are laid out over the target's vocabulary, whatever its own matrix has.
        named = header.of_architecture("vocab_size")
        return int(named) if isinstance(named, int) else header.array_lengths.get("tokenizer.ggml.tokens", 0)
    matrix = header.tensors.get("output.weight") or header.tensors.get("token_embd.weight")
    if matrix is None or len(matrix.shape) < 2:
        raise ShapeUnknown("The file holds no token embedding.")
    return matrix.shape[1]


def _draft_vocabulary(header: Header) -> int:
    if header.architecture not in _HEADS:
        return 0
    chosen = header.tensors.get(eagle3_file.TOKEN_IDS)
    return _vocabulary(header) if chosen is None else chosen.shape[0]


def _trunk(hyper: _Hyper, layers: int, width: int) -> tuple[tuple[Layer, ...], int]:
    """The layers and the window of those that slide."""
    heads = hyper.per_layer("attention.head_count", layers, 0)
    kv_heads = hyper.per_layer("attention.head_count_kv", layers, max(heads))
    inner = hyper.per_layer("feed_forward_length", layers, 0)
    head = width // heads[0] if heads[0] else 0
    # Like llama.cpp: without heads in the first layer there are none, whatever lengths the header gives.
    key, value = (hyper.number(f"attention.{side}_length", head) if head else 0 for side in ("key", "value"))
    sliding_key = hyper.number("attention.key_length_swa", key)
    sliding_value = hyper.number("attention.value_length_swa", value)
    decoded = hyper.number("attention.key_length_mla")
    latent = decoded > 0 and hyper.number("attention.value_length_mla") > 0
    recurs = _recurring(hyper, layers, kv_heads, inner)
    attends = _attending(hyper, layers, recurs, inner)
    window, slides = _sliding(hyper, layers, recurs)
    own = _with_own_cells(hyper, layers)
    trunk = tuple(
        Layer(
            heads=heads[i],
            queries=heads[i] * (decoded if latent else sliding_key if slides[i] else key),
            keys=kv_heads[i] * (sliding_key if slides[i] else key),
            values=0 if latent else kv_heads[i] * (sliding_value if slides[i] else value),
            inner=inner[i],
            attends=attends[i],
            caches=attends[i] and i < own,
            slides=slides[i],
            recurs=recurs[i],
            sparse=f"blk.{i}.ffn_gate_inp.weight" in hyper.header.tensors,
        )
        for i in range(layers)
    )
    return trunk, window


def _nextn(hyper: _Hyper, layers: int, nextn: int, width: int) -> NextN | None:
    """The layers after the trunk: each attends to everything and has a cache of its own."""
    if nextn == 0:
        return None
    header = hyper.header
    heads = hyper.last("attention.head_count", 0)
    head = width // heads if heads else 0
    kv_heads, inner = hyper.last("attention.head_count_kv", heads), hyper.last("feed_forward_length", 0)
    key, value = (hyper.number(f"attention.{side}_length", head) for side in ("key", "value"))
    found = tuple(
        Layer(
            heads=heads,
            queries=heads * key,
            keys=kv_heads * key,
            values=kv_heads * value,
            inner=inner,
            sparse=f"blk.{number}.ffn_gate_inp.weight" in header.tensors,
        )
        for number in range(layers, layers + nextn)
    )
    return NextN(found, nextn_weights(header, layers=layers, nextn=nextn))


def shape_of(header: Header) -> Shape:
    """The dimensions of the model `header` describes. Raises ShapeUnknown."""
    architecture, hyper = header.architecture, _Hyper(header)
    if architecture in _OTHER_MEMORY or header.number("hyper_connection_count"):
        raise ShapeUnknown(f"What models of architecture {architecture!r} keep in memory can't be told by formula.")
    if architecture == MEDUSA:
        return medusa_shape(header)
    assists, width = architecture == ASSISTANT, hyper.number("embedding_length")
    # An assistant is nothing but layers that predict further tokens.
    nextn = 0 if assists else hyper.number("nextn_predict_layers")
    layers = hyper.number("block_count") - nextn
    if layers < 1 or width < 1:
        raise ShapeUnknown("The header doesn't give the number of layers and their width.")
    trunk, window = _trunk(hyper, layers, width)
    return Shape(
        architecture=architecture,
        width=width,
        vocabulary=_vocabulary(header),
        trained_context=hyper.number("context_length"),
        layers=trunk,
        weights=weights_of(header, layers=layers, nextn=nextn),
        window=window,
        experts=_experts(hyper, layers, [layer.inner for layer in trunk]),
        state=_state(hyper, width, max(layer.heads for layer in trunk)) if any(x.recurs for x in trunk) else None,
        nextn=_nextn(hyper, layers, nextn, width),
        draft_vocabulary=_draft_vocabulary(header),
        taps=len(set(header.array_of_architecture(dflash_file.TAPPED_LAYERS) or ())),
        states=hyper.number("embedding_length_out") if assists else 0,
    )
