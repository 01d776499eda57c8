"""What an engine allocates, in bytes: by model, by side and by kind."""

from __future__ import annotations

from dataclasses import dataclass, field

from specchat.catalogue.head_kind import HeadKind


@dataclass(frozen=True, slots=True)
class Bytes:
    """What one model and its context take on one side (the device that computes, or the host)."""

    weights: int = 0
    cache: int = 0
    """Keys and values, and the states of recurrent layers."""
    compute: int = 0
    """Buffers of the graphs."""
    rows: int = 0
    """Hidden states that a trained head is fed with: kept in the graphs, and handed out."""
    rollback: int = 0
    """Earlier states of recurrent layers, to take drafts back to."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.compute + self.rows + self.rollback

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(
            self.weights + other.weights,
            self.cache + other.cache,
            self.compute + other.compute,
            self.rows + other.rows,
            self.rollback + other.rollback,
        )


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """What one model and its context take; on a CPU everything is on the host."""

    device: Bytes = field(default_factory=Bytes)
    host: Bytes = field(default_factory=Bytes)

    def __add__(self, other: ModelDemand) -> ModelDemand:
        return ModelDemand(self.device + other.device, self.host + other.host)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the engine takes for one context size."""

    target: ModelDemand
    draft: ModelDemand | None
    """A draft model, or a trained head."""
    context: int
    """Cells of the target's cache that were asked for."""
    exact: bool
    """Measured with llama.cpp's own allocator; otherwise estimated by formula."""
    on_device: bool
    """Whether layers go to a GPU: what must fit is then the device's side, else the host's."""
    head: HeadKind | None = None
    """What kind of head `draft` is; None for a draft model."""

    @property
    def total(self) -> int:
        """Bytes on the side that must fit."""
        models = [self.target, *([self.draft] if self.draft else [])]
        return sum((model.device if self.on_device else model.host).total for model in models)
