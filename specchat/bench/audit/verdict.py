"""The audit as a whole: what is run, what counts as a violation, and the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specchat.bench.audit.contestants import NOBODY, Onlooker, Unavailable
from specchat.bench.audit.identity import Compared, Fork, Trial, compare
from specchat.bench.audit.numerics import BATCHES, Numerics, measure
from specchat.bench.audit.statistics import Statistics, compare_pairs
from specchat.bench.entrants import METHODS, Model
from specchat.bench.prompts import PROMPTS
from specchat.bench.record import flash_attention_here, provenance
from specchat.drafters.method import Method

SAMPLED_METHODS = (Method.DRAFT, Method.LAYER_SKIP, Method.EARLY_EXIT, Method.SUFFIX)
"""Those whose drafts are sampled come first: they are the ones a rule could get wrong."""
_KINDS = ("copy", "code", "prose", "list")
"""Copying first: without it, what drafts from text already seen has little to draft."""
_LEAST_P = 1e-4
_LEAST_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is compared."""

    prompts: int = 4
    tokens: int = 48
    seeds: int = 2
    samples: int = 300
    positions: int = 96


QUICK = Extent(prompts=2, tokens=24, seeds=1, samples=80, positions=48)


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found."""

    model: str
    greedy: list[Compared]
    coupled: list[Compared]
    unavailable: list[Unavailable]
    """Also what dropped out on the way, such as for want of memory."""
    statistics: Statistics | Unavailable
    numerics: Numerics

    @property
    def tolerance(self) -> float:
        """A fork is explained where the two best choices lie no further apart, in logits: both may be off."""
        return max(_LEAST_GAP, 2 * self.numerics.largest_difference)

    def violates(self, fork: Fork) -> bool:
        """Whether rounding can't explain a fork."""
        return fork.gap > self.tolerance

    @property
    def violations(self) -> list[str]:
        """A sentence for each; none is proof of exactness as far as was looked."""
        found = [
            f"{kind} {compared.method}: prompt {fork.prompt + 1}, token {fork.position + 1} is {fork.other} instead of "
            f"{fork.plain}, and the choice there was clear (a gap of {fork.gap:.3g} logits)."
            for kind, rows in (("greedy", self.greedy), ("coupled", self.coupled))
            for compared in rows
            for fork in compared.forks
            if self.violates(fork)
        ]
        test = self.statistics
        if isinstance(test, Statistics) and test.p_value is not None and test.p_value < _LEAST_P:
            found.append(
                f"{test.method}: sampled text is distributed otherwise than plain text (p = {test.p_value:.1g})."
            )
        return found

    @property
    def exact(self) -> bool:
        """Whether something was drafted and nothing was violated."""
        return bool(self._drafted) and not self.violations

    @property
    def _drafted(self) -> list[Compared]:
        """What proves something: answers without any drafts are plain decoding's own."""
        return [row for row in (*self.greedy, *self.coupled) if row.drafted]

    @property
    def _nothing(self) -> str:
        """Why nothing was compared."""
        reasons = {gone.method: gone.reason for gone in self.unavailable}
        for row in self.greedy:
            reasons.setdefault(row.method, row.note or "it drafted nothing here.")
        shown = "; ".join(f"{method}: {reason.rstrip('.')}" for method, reason in reasons.items())
        return f"Nothing was compared: {shown or 'no method was asked for'}."

    @property
    def verdict(self) -> str:
        """One line for people."""
        if self.violations:
            return f"NOT EXACT: {self.violations[0]}"
        if not self._drafted:
            return self._nothing
        forks = sum(len(row.forks) for row in self._drafted)
        tokens = sum(row.tokens for row in self._drafted)
        methods = _counted(len({row.method for row in self._drafted}), "method")
        said = [f"Exact: {methods} wrote the same {tokens:,} tokens as plain decoding"]
        if forks:
            said = [f"Exact up to rounding: {_counted(forks, 'near tie')} went the other way in {tokens:,} tokens"]
        test = self.statistics
        if isinstance(test, Statistics) and test.p_value is not None:
            said.append(f"sampled text has its distribution (p = {test.p_value:.2f}, {test.samples} samples a side)")
        return ", ".join(said) + "."

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        return {
            **provenance("specchat audit", model=self.model, flash_attention=flash_attention_here()),
            "exact": self.exact,
            "verdict": self.verdict,
            "violations": self.violations,
            "tolerance": self.tolerance,
            "greedy": [asdict(row) for row in self.greedy],
            "coupled": [asdict(row) for row in self.coupled],
            "unavailable": [asdict(row) for row in self.unavailable],
            "statistics": asdict(self.statistics),
            "numerics": asdict(self.numerics) | {"identical": self.numerics.identical},
        }


def _counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def audit(model: Model, extent: Extent, methods: Sequence[Method] = METHODS, onlooker: Onlooker = NOBODY) -> Audit:
    """Run it all. Raises what opening the model for plain decoding raises, and AuditCancelled."""
    model = model.settled()
    texts = [PROMPTS[kind][0] for kind in _KINDS][: extent.prompts]
    numerics = measure(model, texts[0], extent.positions, onlooker, batches=BATCHES)
    trials = [Trial(i, text, None, extent.tokens) for i, text in enumerate(texts)]
    greedy, missing = compare(model, methods, trials, onlooker.of("greedy"))
    there = [row.method for row in greedy]
    seeded = [Trial(i, text, seed, extent.tokens) for seed in range(extent.seeds) for i, text in enumerate(texts[:2])]
    coupled, dropped_out = compare(model, there, seeded, onlooker.of("coupled"))
    sampled = [method for method in SAMPLED_METHODS if method in there]
    statistics = compare_pairs(model, sampled, extent.samples, onlooker)
    return Audit(model.model or "", greedy, coupled, [*missing, *dropped_out], statistics, numerics)
