"""The dimensions of a model that decide what it takes."""

from __future__ import annotations

from dataclasses import dataclass

from specchat.fit.placement import Weights


class ShapeUnknown(Exception):
    """A model whose memory can't be told from its header; the message says why, in a sentence."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the trunk; counts are elements."""

    heads: int
    queries: int
    """One row's queries: heads × key length (for MLA as they are before they meet the latent key)."""
    keys: int
    """One cell's keys: KV heads × key length."""
    values: int
    """One cell's values; 0 where they are part of the keys (MLA)."""
    inner: int
    """Width of the dense feed-forward block."""
    attends: bool = True
    caches: bool = True
    """Whether it has cells of its own in the KV cache; some layers attend to the cells of an earlier one."""
    slides: bool = False
    """Whether it sees only a window, and so keeps only that."""
    recurs: bool = False
    """Whether it keeps a running state."""
    sparse: bool = False
    """Whether its feed-forward block is the experts'."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The sparse feed-forward blocks."""

    count: int
    used: int
    inner: int
    shared: int = 0
    """Width of the block that every token takes."""


@dataclass(frozen=True, slots=True)
class RunningState:
    """What one recurrent layer keeps of one sequence, in f32 elements."""

    convolution: int
    state: int
    widest: int
    """Elements a row that live at once while the block runs."""
    channels: int
    """Elements a row of the short convolution."""
    inner: int
    """Elements a row of what the state gives out."""
    rolls_back: bool
    delta_net: bool = False
    """Whether its kernel steps the state in place."""


@dataclass(frozen=True, slots=True)
class NextN:
    """The layers after a model's trunk that predict further tokens (MTP)."""

    layers: tuple[Layer, ...]
    weights: tuple[int, ...]
    """Bytes of each."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's dimensions and the bytes of its tensors."""

    architecture: str
    width: int
    vocabulary: int
    trained_context: int
    layers: tuple[Layer, ...]
    """The trunk; layers that predict further tokens (MTP) are in `nextn`."""
    weights: Weights
    """Without those of `nextn`, for which it has entries of 0 bytes."""
    window: int = 0
    """Cells that a sliding layer sees."""
    experts: Experts | None = None
    state: RunningState | None = None
    nextn: NextN | None = None
    """Layers that predict further tokens; only an engine that drafts with them loads them."""
    draft_vocabulary: int = 0
    """Tokens that an EAGLE-3 or DFlash head can draft; 0 for any other model."""
    taps: int = 0
    """Layers of the target that such a head reads; 0 where that isn't known, and for any other model."""
    states: int = 0
    """Width of the states that an assistant takes and gives: its target's. 0 for any other model: its own."""
