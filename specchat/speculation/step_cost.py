"""Seconds of a step by the depth it may draft to: drafting, and verifying what was drafted."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specchat.speculation.cost import CostCurve

ENOUGH = 3
"""Passes at a size before its cost is believed: one of them may be ten times late."""
_CHEAPER_AT_MOST = 0.7
"""A larger pass may cost less than a smaller one: at most this much of it (4 rows against 3, lab notes)."""


class StepCost:
    """What a step costs, from the target's curve and the draft's; `depths` are those that are ever drafted."""

    def __init__(self, target: CostCurve, draft: CostCurve, depths: Sequence[int]) -> None:
        self.target = target
        self.draft = draft
        self._depths = depths

    def is_measured(self, depth: int) -> bool:
        """Whether verifying `depth` tokens was timed often enough to be believed."""
        return self.target.passes(depth + 1) >= ENOUGH

    def seconds(self, depth: int, *, hopeful: bool = False) -> float:
        """Seconds of a step that drafts `depth` tokens; `hopeful`: as few as may be believed where unmeasured."""
        return self._draft_seconds(depth) + self._verify_seconds(depth + 1, hopeful=hopeful)

    def _draft_seconds(self, depth: int) -> float:
        measured = self.draft.measured
        if not depth or not measured:
            return 0.0
        if self.draft.has_point(depth):
            return self.draft.estimate_s(depth)
        cost = self.draft.estimate(depth)
        if cost is not None:
            return cost.seconds
        # A chain is drafted token by token: unlike verification, its cost is in proportion.
        nearest = measured[0] if depth < measured[0] else measured[-1]
        return self.draft.estimate_s(nearest) * depth / nearest

    def _verify_seconds(self, rows: int, *, hopeful: bool) -> float:
        if not hopeful and self.target.has_point(rows):
            return self.target.estimate_s(rows)
        cost = self.target.estimate(rows)
        if cost is not None and not hopeful:
            return cost.seconds
        if cost is not None and self.is_measured(rows - 1):
            # What was measured long ago may have become better by a tenth.
            return cost.seconds * (1 - min(0.6, max(0.1, cost.error)))
        plain = self.target.estimate_s(1)
        below = max((d + 1 for d in self._depths if d + 1 < rows and self.is_measured(d)), default=1)
        seconds = self.target.estimate_s(below)
        least = max(plain, _CHEAPER_AT_MOST * seconds)
        if not hopeful:
            # Between the least it may cost and what every row costing alike would make of it.
            return math.sqrt(least * seconds * rows / below)
        # Few passes may all have been late; a guess between others, or from another session, may be believed.
        return least if cost is None or self.target.passes(rows) else max(least, cost.seconds * (1 - cost.error))
