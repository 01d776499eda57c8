"""Exact enumeration: every outcome of a rule's real code with its probability, as fractions.

A rule asks its generator for uniform numbers and compares them with thresholds. Here the generator is
scripted: each number it hands out stands for a whole cell between two neighbouring thresholds, and an
outcome's probability is the product of its cells' lengths. Probabilities in the tables are dyadic, so that
they are exact as floats; numbers are taken from the middle of a cell, so that the rounding of a threshold
does not matter. A threshold missing from the cells, or a wrong formula, makes the law come out wrong.
"""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar, cast

import numpy as np

from specchat.speculation.acceptance import AcceptanceRule
from specchat.speculation.distribution import Distribution
from specchat.speculation.step import Draft, Step

Outcome = TypeVar("Outcome")
Law = dict[tuple[int, ...], Fraction]
Prefix = tuple[int, ...]


class ScriptedGenerator:
    """Stands in for numpy's generator: `random()` walks through the cells as an odometer does."""

    def __init__(self, thresholds: Iterable[Fraction]) -> None:
        inner = {t for t in thresholds if 0 < t < 1}
        bounds = [Fraction(0), *sorted(inner), Fraction(1)]
        self._middles = [float((a + b) / 2) for a, b in itertools.pairwise(bounds)]
        self._lengths = [b - a for a, b in itertools.pairwise(bounds)]
        self._script: list[int] = []
        self._asked = 0

    def random(self) -> float:
        if self._asked == len(self._script):
            self._script.append(0)
        self._asked += 1
        return self._middles[self._script[self._asked - 1]]

    def outcomes(self, run: Callable[[], Outcome]) -> Iterator[tuple[Outcome, Fraction]]:
        """Yield each outcome of `run`, which draws from this generator, and its probability."""
        while True:
            self._asked = 0
            outcome = run()
            self._script = self._script[: self._asked]
            probability = Fraction(1)
            for cell in self._script:
                probability *= self._lengths[cell]
            yield outcome, probability
            while self._script and self._script[-1] == len(self._lengths) - 1:
                self._script.pop()
            if not self._script:
                return
            self._script[-1] += 1

    def as_generator(self) -> np.random.Generator:
        return cast(np.random.Generator, self)


def ratios(denominator: int) -> set[Fraction]:
    """Every threshold that quotients of multiples of 1/denominator can give."""
    return {Fraction(a, b) for b in range(1, denominator + 1) for a in range(1, b)}


@dataclass(frozen=True)
class Tables:
    """Context-dependent distributions of a target (p) and a draft (q) over a small vocabulary."""

    name: str
    vocabulary: int
    gamma: int
    denominator: int
    p: dict[Prefix, list[Fraction]]
    q: dict[Prefix, list[Fraction]]

    @classmethod
    def random(cls, seed: int, vocabulary: int, gamma: int, denominator: int = 4) -> Tables:
        """Tables with zeros, disjoint supports, certainties and contexts where p = q among them."""
        rng = random.Random(seed)
        p, q = {}, {}
        for depth in range(gamma + 1):
            for prefix in itertools.product(range(vocabulary), repeat=depth):
                p[prefix] = _random_row(rng, vocabulary, denominator)
                same = rng.random() < 0.15
                q[prefix] = p[prefix] if same else _random_row(rng, vocabulary, denominator)
        return cls(f"V{vocabulary}-gamma{gamma}-{seed}", vocabulary, gamma, denominator, p, q)

    def __str__(self) -> str:
        return self.name

    def target_law(self) -> Law:
        """The law of γ + 1 tokens of the target alone; tokens of probability 0 are left out."""
        return self.continued({(): Fraction(1)})

    def continued(self, law: Law) -> Law:
        """The law of γ + 1 tokens, when the target continues what `law` gives."""
        whole: Law = defaultdict(Fraction)
        for tokens, probability in law.items():
            if probability == 0:
                continue
            if len(tokens) == self.gamma + 1:
                whole[tokens] += probability
                continue
            longer = {(*tokens, x): probability * p for x, p in enumerate(self.p[tokens])}
            for sequence, value in self.continued(longer).items():
                whole[sequence] += value
        return dict(whole)


def _random_row(rng: random.Random, vocabulary: int, denominator: int) -> list[Fraction]:
    cuts = sorted(rng.randint(0, denominator) for _ in range(vocabulary - 1))
    return [Fraction(b - a, denominator) for a, b in itertools.pairwise([0, *cuts, denominator])]


def distribution(row: Sequence[Fraction], form: int) -> Distribution:
    """The same distribution in one of four forms: dense, dense in float32, sparse, sparse with zeros kept."""
    probs = np.array([float(x) for x in row])
    if form % 4 < 2:
        return Distribution(None, probs if form % 4 == 0 else probs.astype(np.float32))
    ids = np.arange(len(row)) if form % 4 == 3 else probs.nonzero()[0]
    return Distribution(ids, probs[ids])


Proposals = Iterator[tuple[Draft, Fraction]]


def sampled(tables: Tables) -> Proposals:
    """Every draft of γ tokens drawn from q, with its probability."""
    for ids in itertools.product(range(tables.vocabulary), repeat=tables.gamma):
        probability = Fraction(1)
        for i, token in enumerate(ids):
            probability *= tables.q[ids[:i]][token]
        if probability:
            yield Draft(ids, [distribution(tables.q[ids[:i]], len(ids) + i) for i in range(len(ids))]), probability


def one_hot(tables: Tables) -> Iterator[Draft]:
    """Every deterministic draft of γ tokens: whatever a lookup might propose."""
    for ids in itertools.product(range(tables.vocabulary), repeat=tables.gamma):
        yield Draft(ids)


def steps(
    rule: Callable[[np.random.Generator], AcceptanceRule], tables: Tables, draft: Draft, thresholds: set[Fraction]
) -> Iterator[tuple[Step, Fraction]]:
    """Every step the rule can make of `draft`, with its probability."""
    generator = ScriptedGenerator(thresholds)
    judge = rule(generator.as_generator())
    ids = tuple(draft.ids)

    def target(i: int) -> Distribution:
        return distribution(tables.p[ids[:i]], i + 2 * len(ids))

    yield from generator.outcomes(lambda: judge.accept(draft, target, position=7))


def emitted_law(
    rule: Callable[[np.random.Generator], AcceptanceRule],
    tables: Tables,
    proposals: Iterable[tuple[Draft, Fraction]],
    thresholds: Callable[[Draft], set[Fraction]] | None = None,
) -> Law:
    """The law of γ + 1 tokens: what the rule emits for the proposals, continued by the target."""
    law: Law = defaultdict(Fraction)
    for draft, probability in proposals:
        cells = thresholds(draft) if thresholds else ratios(tables.denominator)
        for step, chance in steps(rule, tables, draft, cells):
            law[step.tokens] += probability * chance
    return tables.continued(law)
