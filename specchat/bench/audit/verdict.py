"""The audit as a whole: what is run, what counts as a violation, and the figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specchat.bench.audit.contestants import Setup, Unavailable
from specchat.bench.audit.identity import Compared, Fork, Trial, compare
from specchat.bench.audit.numerics import BATCHES, Numerics, measure
from specchat.bench.audit.statistics import Statistics, compare_pairs
from specchat.bench.prompts import PROMPTS
from specchat.drafters.method import Method

METHODS = tuple(method for method in Method if method is not Method.NONE)
_SAMPLED_METHODS = (Method.DRAFT, Method.LAYER_SKIP, Method.EARLY_EXIT, Method.SUFFIX)
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

    greedy: list[Compared]
    coupled: list[Compared]
    unavailable: list[Unavailable]
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
        """Whether nothing was violated."""
        return not self.violations

    @property
    def verdict(self) -> str:
        """One line for people."""
        if not self.exact:
            return f"NOT EXACT: {self.violations[0]}"
        forks = sum(len(row.forks) for row in (*self.greedy, *self.coupled))
        tokens = sum(row.tokens for row in (*self.greedy, *self.coupled))
        said = [f"Exact: {len(self.greedy)} methods wrote the same {tokens:,} tokens as plain decoding"]
        if forks:
            said = [f"Exact up to rounding: {forks} near ties went the other way in {tokens:,} tokens"]
        test = self.statistics
        if isinstance(test, Statistics) and test.p_value is not None:
            said.append(f"sampled text has its distribution (p = {test.p_value:.2f}, {test.samples} samples a side)")
        return ", ".join(said) + "."

    def to_dict(self) -> dict[str, Any]:
        """Everything, JSON-able."""
        return {
            "schema": 1,
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


def audit(
    setup: Setup, extent: Extent, methods: Sequence[Method] = METHODS, told: Callable[[str], None] = lambda _: None
) -> Audit:
    """Run it all; `told` hears what happens now. Raises what opening the model for plain decoding raises."""
    texts = [PROMPTS[kind][0] for kind in _KINDS][: extent.prompts]
    numerics = measure(setup, texts[0], extent.positions, told, batches=BATCHES)
    trials = [Trial(i, text, None, extent.tokens) for i, text in enumerate(texts)]
    greedy, missing = compare(setup, methods, trials, lambda what: told(f"greedy: {what}"))
    there = [row.method for row in greedy]
    seeded = [Trial(i, text, seed, extent.tokens) for seed in range(extent.seeds) for i, text in enumerate(texts[:2])]
    coupled, _ = compare(setup, there, seeded, lambda what: told(f"coupled: {what}"))
    sampled = [method for method in _SAMPLED_METHODS if method in there]
    statistics = compare_pairs(setup, sampled, extent.samples, told)
    return Audit(greedy, coupled, missing, statistics, numerics)
