"""What drafting has brought so far: the figures on the screen, in `--json` and in benchmarks."""

from __future__ import annotations

from collections import Counter

from specchat.speculation.step import Step


class Metrics:
    """Running totals over steps; what was cut from a step (`Step.cut`) is not counted.

    `drafted` counts every proposed token, `tested` those the acceptance rule looked at: a token after a
    rejection was never tested, so that α is the rate of acceptance and not of waste. Of a tree, `tested` counts the
    levels looked at and `accepted` the nodes on the walked path: α is then the rate of levels with an accepted child.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.drafted = 0
        self.tested = 0
        self.accepted = 0
        self.emitted = 0
        self.draft_s = 0.0
        self.verify_s = 0.0
        self.depths: Counter[int] = Counter()
        """Steps by the number of tokens they drafted; of a tree, nodes."""
        self.methods: Counter[str] = Counter()
        """Steps that drafted, by the drafter; empty names where there is but one."""
        self.trees = 0
        """Steps whose draft was a tree: where there are some, α is labelled as one of walked paths."""
        self._tested_at: Counter[int] = Counter()
        self._accepted_at: Counter[int] = Counter()

    def record(self, step: Step, draft_s: float, verify_s: float, source: str = "") -> None:
        """Add one target forward pass, the seconds its draft and its verification took, and who drafted."""
        self.steps += 1
        self.drafted += step.drafted
        self.tested += step.tested
        self.accepted += step.accepted
        self.emitted += len(step.tokens)
        self.draft_s += draft_s
        self.verify_s += verify_s
        self.depths[step.drafted] += 1
        if step.drafted:
            self.methods[source] += 1
        self.trees += step.path is not None
        self._tested_at.update(range(step.tested))
        self._accepted_at.update(range(step.accepted))

    @property
    def alpha(self) -> float | None:
        """Accepted over tested tokens; None when nothing was tested."""
        return self.accepted / self.tested if self.tested else None

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted tokens over target forward passes, bonus included; None before the first."""
        return self.emitted / self.steps if self.steps else None

    @property
    def per_position(self) -> tuple[float, ...]:
        """Accepted over tested for each position (of a tree, level) of the draft, as deep as any was tested."""
        return tuple(self._accepted_at[i] / self._tested_at[i] for i in range(len(self._tested_at)))
