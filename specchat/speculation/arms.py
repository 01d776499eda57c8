"""Which drafter types ahead in this step, and how far: the one with the most expected tokens a second, or none.

Drafters that cost next to nothing (lookup, suffix, REST) say first what they could offer. Whether an offer is worth
verifying depends on how strong its match is, so each strength has its own acceptance rates and its own depth.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from specchat.speculation.cost import CostCurve
from specchat.speculation.depth import DEPTHS, DepthController, nearest_depth
from specchat.speculation.probing import ProbeBudget
from specchat.speculation.rates import AcceptanceRates

PLAIN = "none"
"""The arm of a step that drafts nothing."""

_KEPT_UP = 2
"""Tokens a drafter has to read anyway after a draft that was wholly accepted."""
_STAY = 8.0
"""Steps over which catching up must pay, until it is known for how long a drafter is used once it has caught up."""
_PREFER_FREE = 1.03
_USUAL = 0.6
"""Acceptance believed of a model-based drafter never tried."""
_HOPED = 0.75
"""Acceptance believed of offers never tried: enough to try them beside a drafter that does well."""


class Why(StrEnum):
    """Why a step drafts as it does, for statistics."""

    OFFER = "offer pays"
    MODEL = "draft pays"
    TRIAL = "trial"
    NOTHING_PAYS = "nothing pays"
    ASKED_PLAIN = "plain asked for"


@dataclass(frozen=True, slots=True)
class Offer:
    """What a free drafter could propose: `length` tokens, found by a match of `match` tokens."""

    length: int
    match: int = 0

    @property
    def strength(self) -> int:
        """The class of offers it is judged with."""
        return min(max(self.match, 0), 16).bit_length()


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafter of a step, how many tokens it is asked for, and why. `strength` is that of the offer taken."""

    arm: str
    depth: int
    why: Why
    strength: int = 0


class Arms:
    """Chooses among drafters by measured acceptance and measured costs; knows them by name only.

    All share the target's costs, the machine's speed and the budget for trials. The choice depends on what offers
    there are and how they matched, never on a token that was sampled for this step.
    """

    def __init__(
        self,
        free: Sequence[str] = (),
        models: Sequence[str] = (),
        *,
        max_depth: int = DEPTHS[-1],
        target: CostCurve | None = None,
    ) -> None:
        self.target = CostCurve() if target is None else target
        self._max_depth = max_depth
        self._budget = ProbeBudget()
        self._free = tuple(free)
        self._offered: dict[tuple[str, int], DepthController] = {}
        self._models = {name: self._controller(_USUAL) for name in models}
        self._pending = dict.fromkeys(models, 0)
        self._sync: dict[str, deque[float]] = {name: deque(maxlen=9) for name in models}
        self._stay = dict.fromkeys(models, _STAY)
        self._run = dict.fromkeys(models, 0)
        self._rows = 0
        self._asked: list[DepthController] = []

    def _controller(self, prior: float) -> DepthController:
        return DepthController(self._max_depth, target=self.target, budget=self._budget, rates=AcceptanceRates(prior))

    def choose(
        self, offers: Mapping[str, Offer | int], *, limit: int = DEPTHS[-1], available: Sequence[str] | None = None
    ) -> Choice:
        """The drafter and depth of the next step, at most `limit` tokens.

        `offers` are the free drafters' (a bare length has strength 0); `available` the model-based ones that may be
        used now, all by default. Raises KeyError for a free drafter that was not named at the beginning.
        """
        models = self._models if available is None else available
        best = self._best_model(models, limit)
        if offers:
            best = self._best_offer(offers, limit, best)
        else:
            self._asked.clear()
        return best[0]

    def _best_model(self, models: Sequence[str] | Mapping[str, Any], limit: int) -> tuple[Choice, float]:
        best, best_rate = Choice(PLAIN, 0, Why.NOTHING_PAYS), 0.0
        for name in models:
            controller = self._models[name]
            controller.catch_up_s = self._sync_s(name)
            depth = controller.next(limit)
            if not depth:
                best_rate = max(best_rate, controller.rate)
                continue
            if controller.is_trial(depth):
                return Choice(name, depth, Why.TRIAL), controller.rate
            rate = controller.value(depth)
            overhead = controller.catch_up_s / self._stay[name]
            if overhead:
                tokens = controller.expected_tokens(depth)
                rate = tokens / (tokens / rate + overhead)
            if rate > max(best_rate, controller.value(0)):
                best, best_rate = Choice(name, depth, Why.MODEL), rate
        return best, best_rate

    def _best_offer(
        self, offers: Mapping[str, Offer | int], limit: int, best: tuple[Choice, float]
    ) -> tuple[Choice, float]:
        preference, model_rate = _PREFER_FREE, best[1]
        self._asked.clear()
        for name, given in offers.items():
            offer = Offer(given) if isinstance(given, int) else given
            controller = self._for_offer(name, offer.strength)
            controller.rival_rate = model_rate
            self._asked.append(controller)
            depth = controller.next(nearest_depth(min(offer.length, limit)))
            if not depth:
                continue
            if controller.is_trial(depth):
                return Choice(name, depth, Why.TRIAL, offer.strength), controller.rate
            rate = controller.value(depth)
            if depth + 1 != self._rows and self.target.switch_s:
                tokens = controller.expected_tokens(depth)
                rate = tokens / (tokens / rate + self.target.switch_s)
            if rate * preference > best[1] and rate > controller.value(0):
                best, preference = (Choice(name, depth, Why.OFFER, offer.strength), rate), 1.0
        return best

    def _for_offer(self, name: str, strength: int) -> DepthController:
        if name not in self._free:
            raise KeyError(f"No free drafter is called {name}.")
        controller = self._offered.get((name, strength))
        if controller is None:
            controller = self._offered[name, strength] = self._controller(_HOPED)
            controller.review()
        return controller

    def record(
        self,
        choice: Choice,
        tested: int,
        accepted: int,
        draft_s: float,
        verify_s: float,
        context: int = 0,
        *,
        drafted: int | None = None,
    ) -> None:
        """Add the step that followed a choice; `drafted` where fewer tokens came than were asked for.

        `draft_s` is what drafting took, offers included; `context` counts the tokens before the step.
        """
        depth = choice.depth if drafted is None else drafted
        self.target.record(depth + 1, verify_s, context, switched=depth + 1 != self._rows)
        self._rows = depth + 1
        self._budget.elapse(draft_s + verify_s)
        for name, controller in self._models.items():
            if name == choice.arm:
                self._record_model(name, controller, depth, accepted, tested, draft_s, verify_s, context)
            else:
                self._pending[name] += accepted + 1
                self._stay[name] += (_STAY - self._stay[name]) / 512
                if not depth:
                    controller.observe(0, 0, 0, 0.0, verify_s, context)
        taken = self._for_offer(choice.arm, choice.strength) if choice.arm in self._free else None
        if taken is not None:
            taken.observe(depth, accepted, tested, draft_s, verify_s, context)
        for controller in self._asked:
            # What was not taken has waited one offer longer.
            if controller is not taken:
                controller.observe(0, 0, 0, 0.0, verify_s, context)

    def _record_model(
        self,
        name: str,
        controller: DepthController,
        depth: int,
        accepted: int,
        tested: int,
        draft_s: float,
        verify_s: float,
        context: int,
    ) -> None:
        behind = self._pending[name] - _KEPT_UP
        self._pending[name] = _KEPT_UP if depth and accepted == depth else 1
        if behind <= 0:
            self._run[name] += 1
        elif self._run[name]:
            self._stay[name] += (self._run[name] - self._stay[name]) / 4
            self._run[name] = 1
        if behind > 0 and depth:
            usual = controller.draft.estimate(depth)
            if usual is not None:
                self._sync[name].append(max(0.0, draft_s - usual.seconds) / behind)
                draft_s = 0.0
        controller.observe(depth, accepted, tested, draft_s, verify_s, context)

    def _sync_s(self, name: str) -> float:
        """Seconds until a model-based drafter has read what was written without it."""
        behind = self._pending[name] - _KEPT_UP
        known = self._sync[name]
        return behind * median(known) if behind > 0 and known else 0.0

    def begun(self, name: str, tokens: int, seconds: float) -> None:
        """A model-based drafter has read `tokens` in `seconds` and is up to date."""
        self._pending[name] = 1
        if tokens > 0 and not self._sync[name]:
            self._sync[name].append(seconds / tokens)

    def invite(self, name: str) -> None:
        """Let a drafter that is about to be started be tried soon, whatever was found out about it before."""
        self._models[name].invite()

    def expected_rates(self, name: str) -> tuple[float, float]:
        """Tokens a second expected of a model-based drafter at its best measured depth, and of plain decoding.

        0 where nothing was measured: a drafter never used has no rate.
        """
        controller = self._models[name]
        depths = [d for d in DEPTHS[1:] if d <= self._max_depth and self.target.has_point(d + 1)]
        if not controller.draft.measured:
            depths = []
        return max((controller.value(d) for d in depths), default=0.0), controller.value(0)

    def to_dict(self) -> dict[str, Any]:
        """Costs and rates for a cache, JSON-able."""
        models = {name: controller.to_dict() for name, controller in self._models.items()}
        offered = {f"{name}/{strength}": c.to_dict() for (name, strength), c in self._offered.items()}
        return {"version": 1, "target": self.target.to_dict(), "models": models, "offered": offered}

    @classmethod
    def from_dict(
        cls,
        data: Mapping[str, Any],
        free: Sequence[str] = (),
        models: Sequence[str] = (),
        *,
        max_depth: int = DEPTHS[-1],
    ) -> Arms:
        """Arms that start from a cache; drafters it does not know start afresh. Raises ValueError on damaged data."""
        if data.get("version") != 1 or not all(
            isinstance(data.get(k), Mapping) for k in ("target", "models", "offered")
        ):
            raise ValueError("The cached costs are damaged: measure anew.")
        arms = cls(free, models, max_depth=max_depth, target=CostCurve.from_dict(data["target"]))
        for name, controller in arms._models.items():
            if name in data["models"]:
                controller.load(data["models"][name])
        for key, saved in data["offered"].items():
            name, _, strength = key.rpartition("/")
            if name in free and strength.isdecimal():
                arms._for_offer(name, int(strength)).load(saved)
        return arms
