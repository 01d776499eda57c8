"""How far to draft: expected tokens for measured seconds, depth 0 allowed.

A controller is fed what happened (depth, outcome, times) and asked for the next depth. It never sees the draft of the
step it decides on: what it answers depends on the past alone, so that drafts keep the law they were drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specchat.speculation.cost import CostCurve
from specchat.speculation.probing import BackOff, ProbeBudget
from specchat.speculation.rates import AcceptanceRates
from specchat.speculation.step_cost import ENOUGH, StepCost

DEPTHS = (0, 1, 2, 3, 4, 5, 7, 11, 15, 23, 31, 47, 63)
"""The depths drafted: few, since a pass of a new size rebuilds the graph; d + 1 rows fill blocks of 4, 8, 16."""

_REVIEW = 8
"""Steps between two looks at the estimates; a change of the text and the end of a trial are looked at at once."""
_TRIAL = 3
"""Steps a trial lasts: the first at a new size is judged apart."""
_WORTH = 1.03
"""Expected gain below which nothing is switched or tried."""
_HORIZON = 64
"""Steps in which a switch must have paid for itself."""


@dataclass(slots=True)
class _Trial:
    depth: int
    left: int
    is_probe: bool
    """Whether it asks for the acceptance rate, not for the cost."""
    patience: int = 16
    """Shorter drafts it outlives: a drafter may never give as many tokens as it asks for."""
    least_s: float = math.inf
    """The fastest step so far: one may come ten times late."""


class DepthController:
    """Chooses the depth of the largest E[tokens] / (draft seconds + T(depth + 1)) (SmartSpec, 2406.14066).

    E is the product of per-position rates, T a measured curve. A depth is used after a trial at its size; trials are
    short, end early when hopeless, and all they lose together is bounded by `budget`. Where drafting does not pay it
    is probed again after 8 to 256 steps.
    """

    def __init__(
        self,
        max_depth: int = DEPTHS[-1],
        *,
        target: CostCurve | None = None,
        budget: ProbeBudget | None = None,
        rates: AcceptanceRates | None = None,
    ) -> None:
        self.target = CostCurve() if target is None else target
        self.draft = CostCurve(self.target.speed, leads=False)
        self.rates = AcceptanceRates() if rates is None else rates
        self._budget = ProbeBudget() if budget is None else budget
        self.rival_rate = 0.0
        """Tokens a second of what would be done without this drafter; plain decoding is always taken into account."""
        self.catch_up_s = 0.0
        """Seconds the drafter must first spend on text that was written without it."""
        self._depths = tuple(d for d in DEPTHS if d <= max_depth)
        self._cost = StepCost(self.target, self.draft, self._depths)
        self._main = 0
        self._used_before = 0
        """The depth another session had settled on; 0 where it drafted nothing, or its costs are not known here."""
        self._trial: _Trial | None = None
        self._tokens: dict[int, float] = {}
        self._rate = 0.0
        self._steps = 0
        self._since_review = 0
        self._next_look = 0
        self._reach = 0.0
        """The largest limit of late: nothing deeper is tried."""
        self._rows = 0
        self._off = BackOff(8, 256)
        self._again = {d: BackOff(16, 512) for d in self._depths}

    def next(self, limit: int = DEPTHS[-1]) -> int:
        """The depth of the next step, at most `limit`; a trial that does not fit waits for a while."""
        self._reach = max(float(limit), 0.98 * self._reach)
        if self._trial is not None:
            if self._trial.depth <= limit:
                return self._trial.depth
            if self._trial.depth > self._reach:
                self._trial = None
        if self._main <= limit:
            return self._main
        fitting = [d for d in self._depths if d <= limit and (d == 0 or self._is_known(d))]
        return max(fitting, key=self.value, default=0)

    def is_trial(self, depth: int) -> bool:
        """Whether `depth`, just answered, is tried for what it tells, not for what it is known to give."""
        return self._trial is not None and self._trial.depth == depth

    @property
    def rate(self) -> float:
        """Tokens a second expected of the best known depth, plain decoding included; 0 when nothing was measured."""
        return self._rate

    @property
    def _to_beat(self) -> float:
        return max(self._rate, self.rival_rate)

    def value(self, depth: int) -> float:
        """Tokens a second expected at `depth`, as far as its cost is known; 0 when nothing was measured."""
        return self._value(depth) if self._rate else 0.0

    def expected_tokens(self, depth: int) -> float:
        """Tokens expected of a step at `depth`, its own one included."""
        return self.rates.expected_tokens((depth,))[0]

    def record(self, depth: int, accepted: int, tested: int, draft_s: float, verify_s: float, context: int = 0) -> None:
        """Add a step: `depth` tokens drafted in `draft_s`, `accepted` of `tested` kept, verified in `verify_s`.

        `context` counts the tokens before it. Raises ValueError unless 0 ≤ accepted ≤ tested ≤ depth.
        """
        self.target.record(depth + 1, verify_s, context, switched=depth + 1 != self._rows)
        self._rows = depth + 1
        self._budget.elapse(draft_s + verify_s)
        self.observe(depth, accepted, tested, draft_s, verify_s, context)

    def observe(
        self, depth: int, accepted: int, tested: int, draft_s: float, verify_s: float, context: int = 0
    ) -> None:
        """Like `record`, where target and budget are shared and someone else tells them of the step.

        With `draft_s` 0 the time of the draft is unknown and teaches nothing.
        """
        if tested > depth:
            raise ValueError(f"{tested} tokens tested of {depth} drafted cannot be.")
        self._steps += 1
        self._since_review += 1
        elapsed = draft_s + verify_s
        changed = False
        if depth:
            if draft_s > 0:
                self.draft.record(depth, draft_s, context)
            changed = self.rates.record(tested, accepted)
        if changed:
            for back_off in self._again.values():
                back_off.reset(self._steps)
            self._next_look = 0
        if self._trial is not None and self._trial.depth == depth:
            if self._rate:
                # A pass that came ten times late was no fault of the trial's.
                usual = min(elapsed, 2 * self._cost.seconds(depth) + self.catch_up_s)
                self._budget.lose(usual - (accepted + 1) / self._to_beat)
            self._go_on_with(self._trial, elapsed)
            return
        if self._trial is not None and 0 < depth < self._trial.depth:
            self._wait_with(self._trial)
        if changed or self._since_review >= _REVIEW or not self._rate:
            self.review()

    def review(self) -> None:
        """Settle on the best known depth; begin a trial where one promises more."""
        self._since_review = 0
        expected = self.rates.expected_tokens(self._depths)
        self._tokens = dict(zip(self._depths, expected, strict=True))
        if not self._knows_plain():
            return
        known = {d: self._value(d) for d in self._depths if self._is_known(d)}
        best = max(known, key=known.__getitem__)
        held = known.get(self._main, 0.0)
        # Plain decoding needs less of an advantage: nobody may lose by drafting.
        # And it must pay for the graphs that are built anew, there and back.
        rebuilding = 2 * self.target.switch_s / (_HORIZON * self.target.estimate_s(1))
        if best != self._main and known[best] > held * ((1.01 if best == 0 else _WORTH) + rebuilding):
            if best == 0:
                self._off.reset(self._steps)
            self._main = best
            self._again[best].reset(self._steps)
        self._rate = known[self._main]
        if self._trial is None and self._steps >= self._next_look:
            self._trial = self._worth_trying()
            # Early on there is much to try; later on looking for it would cost more than it finds.
            self._next_look = self._steps + (0 if self._steps < 64 else 2 * _REVIEW)

    def _knows_plain(self) -> bool:
        # Where another session drafted, its costs are believed after one pass, which tells how fast the machine is now.
        return self.target.passes(1, steady=True) >= (1 if self._used_before else ENOUGH)

    def _is_known(self, depth: int) -> bool:
        return self._knows_plain() if depth == 0 else self._cost.is_measured(depth)

    def _value(self, depth: int, *, hopeful: bool = False) -> float:
        return self._tokens[depth] / self._cost.seconds(depth, hopeful=hopeful)

    def _worth_trying(self) -> _Trial | None:
        # Each trial reaches further than the one before it, the first to one token or to where another session was.
        reached = max(d for d in self._depths if self.target.passes(d + 1) > 1 or d == 0)
        frontier = 4 * reached + 3 if reached else max(1, self._used_before)
        best, promise = None, _WORTH * self._to_beat
        for depth in self._depths:
            if depth == self._main or depth > min(frontier, self._reach) or self._again[depth].due > self._steps:
                continue
            value = self._value(depth, hopeful=True)
            if value > promise:
                best, promise = depth, value
        if best is None or not self._affordable(best, _TRIAL - 1, self._tokens[best]):
            return self._probe_when_off()
        return _Trial(best, _TRIAL, is_probe=False)

    def invite(self) -> None:
        """Probe soon, however often that was in vain."""
        self._off.reset(self._steps)
        self._next_look = 0

    def _probe_when_off(self) -> _Trial | None:
        used = self._main and self.value(self._main) >= self.rival_rate
        if used or self._steps < self._off.due:
            return None
        known = [d for d in self._depths if 0 < d <= self._reach and self.target.passes(d + 1)]
        if not known:
            return None
        depth = max(known, key=self._value)
        # One rejected step ends it; what it tells must weigh more than what is remembered from long ago.
        if not self._affordable(depth, 1, 1.0):
            return None
        self.rates.soften(3)
        return _Trial(depth, _TRIAL, is_probe=True)

    def _affordable(self, depth: int, steps: int, tokens: float) -> bool:
        loss = steps * (self._cost.seconds(depth) - tokens / self._to_beat) + 2 * self.target.switch_s + self.catch_up_s
        return loss <= 0 or self._budget.allows(loss, self.target.estimate_s(1))

    def _wait_with(self, trial: _Trial) -> None:
        trial.patience -= 1
        if not trial.patience:
            self._trial = None
            self._again[trial.depth].give_up(self._steps)

    def _go_on_with(self, trial: _Trial, elapsed_s: float) -> None:
        trial.left -= 1
        trial.least_s = min(trial.least_s, elapsed_s)
        expected = self.rates.expected_tokens(self._depths)
        self._tokens = dict(zip(self._depths, expected, strict=True))
        # A first pass at a new size says little: it may have cost twice what the following ones will.
        benefit = 1.0 if trial.left < _TRIAL - 1 or self._is_known(trial.depth) else 2.0
        seconds = min(trial.least_s, self._cost.seconds(trial.depth))
        hopeless = benefit * self._tokens[trial.depth] < 0.9 * self._to_beat * seconds
        if trial.left > 0 and not hopeless:
            return
        self._trial = None
        before = self._main
        self._settle_after(trial, before)

    def _settle_after(self, trial: _Trial, before: int) -> None:
        back_off = self._off if trial.is_probe else self._again[trial.depth]
        # A cheap question may be asked more often: none takes more than a hundredth of the time.
        loss = (self._cost.seconds(trial.depth) + 2 * self.target.switch_s) * self._to_beat - 1
        back_off.failed(self._steps, round(100 * max(loss, 0.0)))
        self._next_look = 0
        self.review()
        if self._main != before:
            back_off.reset(self._steps)

    def to_dict(self) -> dict[str, Any]:
        """Costs and rates for a cache, JSON-able."""
        return {"version": 1, "draft": self.draft.to_dict(), "rates": self.rates.to_dict(), "depth": self._main}

    def load(self, data: Mapping[str, Any]) -> None:
        """Start from a cache; the target's curve is cached by its owner. Raises ValueError on damaged data."""
        if data.get("version") != 1 or not all(isinstance(data.get(k), Mapping) for k in ("draft", "rates")):
            raise ValueError("The cached controller is damaged: measure anew.")
        self.draft = CostCurve.from_dict(data["draft"], self.target.speed, leads=False)
        self._cost = StepCost(self.target, self.draft, self._depths)
        self.rates = AcceptanceRates.from_dict(data["rates"])
        depth = data.get("depth", 0)
        known = depth in self._depths and self.target.has_point(1) and self.target.has_point(depth + 1)
        self._used_before = depth if known else 0


def nearest_depth(limit: int) -> int:
    """The deepest of `DEPTHS` that is at most `limit`."""
    return max(d for d in DEPTHS if d <= max(limit, 0))
