"""What a contest finds: answers with their figures, who could not take part, what was left out."""

from __future__ import annotations

from dataclasses import dataclass, field

from specchat.bench.entrants import Arm, Figures
from specchat.bench.extent import Extent
from specchat.bench.passes import Passes


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer in the contest."""

    label: str
    kind: str
    temperature: float
    round: int
    figures: Figures
    heat: int = 0
    """Those of one heat were open at the same time."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Who could not take part, and why."""

    label: str
    reason: str


@dataclass(slots=True)
class Contest:
    """Everything that was measured."""

    model: str
    extent: Extent
    labels: list[str] = field(default_factory=list)
    """In the order of the table, plain decoding first."""
    arms: dict[str, Arm] = field(default_factory=dict)
    """Our own, by label."""
    samples: list[Sample] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    passes: Passes | None = None
    quantisation: str = ""
    threads: int | None = None
    flash_attention: str = ""
    tokens: int = 0
    """The longest answer that the time allowed."""
    openings: int = 0
    """How often contestants were opened."""
    left_out: str = ""
    """What was not measured for want of time, in words."""
    complete: bool = True
    """Whether everything was measured."""
    interrupted: bool = False
    """Whether the user ended it; what was measured until then stands."""
    seconds: float = 0.0
