"""The laws, by exact enumeration: what a lossless rule emits is distributed as the target's own text."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from specchat.speculation.acceptance import AcceptanceRule, Block, Exact, Typical
from specchat.speculation.distribution import Distribution
from specchat.speculation.step import Draft

from .enumeration import (
    Proposals,
    Tables,
    distribution,
    emitted_law,
    one_hot,
    ratios,
    sampled,
    steps,
)

CASES = [
    *(Tables.random(seed, vocabulary=3, gamma=1, denominator=8) for seed in range(25)),
    *(Tables.random(seed, vocabulary=2, gamma=2, denominator=4) for seed in range(100, 125)),
    *(Tables.random(seed, vocabulary=3, gamma=2, denominator=4) for seed in range(200, 215)),
]
ONE = Fraction(1)


def block_thresholds(tables: Tables, draft: Draft) -> set[Fraction]:
    """Where block verification of `draft` may compare: every h, and every residual's cumulative sums."""
    found = ratios(tables.denominator)
    ids, w = tuple(draft.ids), ONE
    for i in range(tables.gamma + 1):
        p = tables.p[ids[:i]]
        if i == tables.gamma:
            return found | {w}
        q = tables.q[ids[:i]]
        excess = [max(w * a - b, Fraction(0)) for a, b in zip(p, q, strict=True)]
        mass = sum(excess, Fraction(0))
        if mass:
            found |= {mass / (mass + 1 - w)} | {sum(excess[: x + 1], Fraction(0)) / mass for x in range(len(p))}
        w = min(w * p[ids[i]] / q[ids[i]], ONE)
    return found


def mean_accepted(rule: type[Exact], tables: Tables) -> Fraction:
    total = Fraction(0)
    for draft, probability in sampled(tables):
        for step, chance in steps(rule, tables, draft, block_thresholds(tables, draft)):
            total += step.accepted * probability * chance
    return total


@pytest.mark.parametrize("tables", CASES, ids=str)
def test_exact_with_sampled_drafts_keeps_the_law(tables: Tables) -> None:
    assert emitted_law(Exact, tables, sampled(tables)) == tables.target_law()


@pytest.mark.parametrize("tables", CASES, ids=str)
def test_block_with_sampled_drafts_keeps_the_law(tables: Tables) -> None:
    law = emitted_law(Block, tables, sampled(tables), lambda draft: block_thresholds(tables, draft))
    assert law == tables.target_law()


@pytest.mark.parametrize("rule", [Exact, Block])
@pytest.mark.parametrize("tables", CASES, ids=str)
def test_every_one_hot_draft_keeps_the_law(rule: type[Exact], tables: Tables) -> None:
    for draft in one_hot(tables):
        assert emitted_law(rule, tables, [(draft, ONE)]) == tables.target_law()


@pytest.mark.parametrize("tables", CASES[::3], ids=str)
def test_one_hot_distributions_keep_the_law_under_block_verification(tables: Tables) -> None:
    """The same drafts, but as distributions: through the block formula, and not as `Exact` does."""
    for draft in one_hot(tables):
        certain = Tables(tables.vocabulary, tables.gamma, tables.denominator, tables.p, one_hot_rows(tables, draft))
        law = emitted_law(Block, certain, sampled(certain), lambda d, t=certain: block_thresholds(t, d))
        assert law == tables.target_law()


def one_hot_rows(tables: Tables, draft: Draft) -> dict[tuple[int, ...], list[Fraction]]:
    return {
        prefix: [Fraction(x == draft.ids[min(len(prefix), tables.gamma - 1)]) for x in range(tables.vocabulary)]
        for prefix in tables.p
    }


@pytest.mark.parametrize("rule", [Exact, Block])
def test_an_empty_draft_is_a_plain_step(rule: type[Exact]) -> None:
    tables = CASES[0]
    assert emitted_law(rule, tables, [(Draft(), ONE)]) == tables.target_law()


@pytest.mark.parametrize("rule", [Exact, Block, Typical])
def test_a_draw_has_the_law_of_its_distribution(rule: type[Exact]) -> None:
    for tables in CASES[:10]:
        for form in range(4):
            law = dict.fromkeys(range(tables.vocabulary), Fraction(0))
            for token, chance in draws(rule, tables, form):
                law[token] += chance
            assert list(law.values()) == tables.q[()]


def draws(rule: type[Exact], tables: Tables, form: int) -> Iterator[tuple[int, Fraction]]:
    from .enumeration import ScriptedGenerator

    generator = ScriptedGenerator(ratios(tables.denominator))
    judge = rule(generator.as_generator())
    yield from generator.outcomes(lambda: judge.draw(distribution(tables.q[()], form), 0))


def test_block_accepts_no_fewer_tokens_than_exact_and_sometimes_more() -> None:
    gains = [mean_accepted(Block, tables) - mean_accepted(Exact, tables) for tables in CASES[25:]]
    assert min(gains) >= 0
    assert max(gains) > 0


def test_block_with_equal_distributions_accepts_everything() -> None:
    """Where p = q, h is 0/0: it means 1."""
    tables = CASES[30]
    equal = Tables(tables.vocabulary, tables.gamma, tables.denominator, tables.p, tables.p)
    assert mean_accepted(Block, equal) == equal.gamma


# --- The classic faults. Each must fail the enumeration that the shipped rules pass. ---


class _ResampleFromTarget(Exact):
    """Forgets the residual: a rejected token is replaced from p."""

    def _replacement(self, p: Distribution, q: Distribution | int, token: int, position: int) -> int | None:
        own = super()._replacement(p, q, token, position)
        return None if own is None else self.draw(p, position)


class _NoLowerBranch(Exact):
    """Takes a one-hot proposal's replacement from p, d included."""

    def _replacement(self, p: Distribution, q: Distribution | int, token: int, position: int) -> int | None:
        own = super()._replacement(p, q, token, position)
        return self.draw(p, position) if own is not None and isinstance(q, int) else own


class _GreedyBlock(Block):
    """Block verification whose chance is w alone, for every prefix."""

    def _length(self, rows: object, ratios: object, proposals: object) -> int:
        assert isinstance(ratios, list)
        for n in range(len(ratios) - 1, 0, -1):
            if self._rng.random() < ratios[n]:
                return n
        return 0


def argmax_drafts(tables: Tables) -> Proposals:
    """Drafts that take the most likely token, and yet come with the distributions: accepted with p/q."""
    ids: tuple[int, ...] = ()
    for _ in range(tables.gamma):
        ids = (*ids, max(range(tables.vocabulary), key=lambda x: tables.q[ids][x]))
    yield Draft(ids, [distribution(tables.q[ids[:i]], 0) for i in range(len(ids))]), ONE


def discarding_drafts(tables: Tables) -> Proposals:
    """Sampled drafts cut before the first token whose own probability is below 1/2."""
    for draft, probability in sampled(tables):
        assert draft.distributions is not None
        keep = 0
        while keep < len(draft) and draft.distributions[keep].prob(draft.ids[keep]) >= 0.5:
            keep += 1
        yield Draft(draft.ids[:keep], draft.distributions[:keep]), probability


def stopping_drafts(tables: Tables) -> Proposals:
    """Sampled drafts that end after the first token whose own probability is below 1/2."""
    seen: dict[tuple[int, ...], Fraction] = {}
    for draft, probability in sampled(tables):
        assert draft.distributions is not None
        keep = next((i + 1 for i in range(len(draft)) if draft.distributions[i].prob(draft.ids[i]) < 0.5), len(draft))
        ids = tuple(draft.ids[:keep])
        seen[ids] = seen.get(ids, Fraction(0)) + probability
    for ids, probability in seen.items():
        yield Draft(ids, [distribution(tables.q[ids[:i]], 2) for i in range(len(ids))]), probability


def wrong_laws(rule: type[AcceptanceRule], proposals: str) -> float:
    """The share of tables on which the law comes out wrong."""
    makers = {"argmax": argmax_drafts, "discard": discarding_drafts, "sampled": sampled}
    cells = [ratios(t.denominator) | {Fraction(a, 16) for a in range(16)} for t in CASES]
    laws = [emitted_law(rule, t, makers[proposals](t), lambda _, c=c: c) for t, c in zip(CASES, cells, strict=True)]
    return float(np.mean([law != t.target_law() for law, t in zip(laws, CASES, strict=True)]))


def test_a_token_kept_and_stopped_after_is_exact() -> None:
    for tables in CASES:
        assert emitted_law(Exact, tables, stopping_drafts(tables)) == tables.target_law()


@pytest.mark.parametrize(
    ("rule", "proposals"),
    [(Exact, "argmax"), (Exact, "discard"), (_ResampleFromTarget, "sampled"), (_GreedyBlock, "sampled")],
)
def test_a_classic_fault_is_caught(rule: type[Exact], proposals: str) -> None:
    assert wrong_laws(rule, proposals) > 0.3


def test_a_one_hot_replacement_that_keeps_the_rejected_token_is_caught() -> None:
    tables = CASES[-1]
    laws = [emitted_law(_NoLowerBranch, tables, [(draft, ONE)]) for draft in one_hot(tables)]
    assert any(law != tables.target_law() for law in laws)


def test_typical_acceptance_is_lossy() -> None:
    assert not Typical.lossless
    tables = CASES[-1]
    thresholds = ratios(tables.denominator)
    assert emitted_law(Typical, tables, sampled(tables), lambda _: thresholds) != tables.target_law()
