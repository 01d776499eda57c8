"""What an engine allocates, in bytes: by model, by side and by kind."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bytes:
    """What one model and its context take on one side (the device that computes, or the host)."""

    weights: int = 0
    cache: int = 0
    """Keys and values, and the states of recurrent layers."""
    compute: int = 0
    """Buffers of the graphs."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.compute

    def __add__(self, other: Bytes) -> Bytes:
        return Bytes(self.weights + other.weights, self.cache + other.cache, self.compute + other.compute)


@dataclass(frozen=True, slots=True)
class ModelDemand:
    """What one model and its context take; on a CPU everything is on the host."""

    device: Bytes = field(default_factory=Bytes)
    host: Bytes = field(default_factory=Bytes)


@dataclass(frozen=True, slots=True)
class Demand:
    """What the engine takes for one context size."""

    target: ModelDemand
    draft: ModelDemand | None
    context: int
    """Cells of the target's cache that were asked for."""
    exact: bool
    """Measured with llama.cpp's own allocator; otherwise estimated by formula."""
    on_device: bool
    """Whether layers go to a GPU: what must fit is then the device's side, else the host's."""

    @property
    def total(self) -> int:
        """Bytes on the side that must fit."""
        models = [self.target, *([self.draft] if self.draft else [])]
        return sum((model.device if self.on_device else model.host).total for model in models)
