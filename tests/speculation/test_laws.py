"""The laws, by exact enumeration: what a lossless rule emits is distributed as the target's own text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from specchat.speculation.acceptance import Block, Exact, Proposal, Typical
from specchat.speculation.distribution import Distribution
from specchat.speculation.step import Draft

from .enumeration import (
    Proposals,
    ScriptedGenerator,
    Tables,
    distribution,
    emitted_law,
    one_hot,
    ratios,
    sampled,
    steps,
)

CASES = [
    *(Tables.random(seed, vocabulary=3, gamma=1, denominator=8) for seed in range(12)),
    *(Tables.random(seed, vocabulary=2, gamma=2) for seed in range(100, 112)),
    *(Tables.random(seed, vocabulary=3, gamma=2) for seed in range(200, 206)),
]
LONG = CASES[12:]
SMALL = CASES[12:24]
ONE = Fraction(1)


def block_thresholds(tables: Tables, draft: Draft) -> set[Fraction]:
    """Where block verification of `draft` may compare: every w and h, and every residual's cumulative sums."""
    found = ratios(tables.denominator)
    ids, w = tuple(draft.ids), ONE
    for i in range(tables.gamma + 1):
        p = tables.p[ids[:i]]
        if i == tables.gamma:
            return found | {w}
        found.add(w)
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
    law = emitted_law(Block, tables, sampled(tables), partial(block_thresholds, tables))
    assert law == tables.target_law()


@pytest.mark.parametrize("tables", CASES, ids=str)
def test_every_one_hot_draft_keeps_the_law(tables: Tables) -> None:
    for draft in one_hot(tables):
        assert emitted_law(Exact, tables, [(draft, ONE)]) == tables.target_law()


@pytest.mark.parametrize("tables", CASES[::4], ids=str)
def test_every_one_hot_draft_keeps_the_law_under_block_verification(tables: Tables) -> None:
    for draft in one_hot(tables):
        assert emitted_law(Block, tables, [(draft, ONE)]) == tables.target_law()


@pytest.mark.parametrize("tables", CASES[::3], ids=str)
def test_one_hot_distributions_keep_the_law_under_block_verification(tables: Tables) -> None:
    """The same drafts, but as distributions: through the block formula, and not as `Exact` does."""
    for draft in one_hot(tables):
        certain = replace(tables, q=one_hot_rows(tables, draft))
        law = emitted_law(Block, certain, sampled(certain), partial(block_thresholds, certain))
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
    generator = ScriptedGenerator(ratios(tables.denominator))
    judge = rule(generator.as_generator())
    yield from generator.outcomes(lambda: judge.draw(distribution(tables.q[()], form), 0))


def test_block_accepts_no_fewer_tokens_than_exact_and_sometimes_more() -> None:
    gains = [mean_accepted(Block, tables) - mean_accepted(Exact, tables) for tables in LONG]
    assert min(gains) >= 0
    assert max(gains) > 0


def test_block_with_equal_distributions_accepts_everything() -> None:
    """Where p = q, h is 0/0: it means 1."""
    equal = replace(LONG[-1], q=LONG[-1].p)
    assert mean_accepted(Block, equal) == equal.gamma


# The classic faults: each must fail the enumeration that the shipped rules pass.


class _ResampleFromTarget(Exact):
    """Forgets the residual: a rejected token is replaced from p."""

    def _replacement(self, p: Distribution, q: Proposal, token: int, position: int) -> int | None:
        likelihood = 1.0 if isinstance(q, int) else q.prob(token)
        return None if self._rng.random() * likelihood < p.prob(token) else self.draw(p, position)


class _RatioBlock(Block):
    """Block verification that keeps the longest prefix with u < w: forgets h."""

    def _length(self, rows: object, ratios: Sequence[float], proposals: object) -> int:
        return next((n for n in range(len(ratios) - 1, 0, -1) if self._rng.random() < ratios[n]), 0)


def argmax_drafts(tables: Tables) -> Proposals:
    """Drafts that take the most likely token, and yet come with the distributions: accepted with p/q."""
    ids: tuple[int, ...] = ()
    for _ in range(tables.gamma):
        row = tables.q[ids]
        ids = (*ids, row.index(max(row)))
    yield Draft(ids, rows_of(tables, ids)), ONE


def cut_drafts(tables: Tables, *, keep_last: bool) -> Proposals:
    """Sampled drafts that end at the first token whose own probability is below 1/2, with it or without."""
    found: dict[tuple[int, ...], Fraction] = {}
    for draft, probability in sampled(tables):
        ids = tuple(draft.ids)
        unsure = (i for i in range(len(ids)) if tables.q[ids[:i]][ids[i]] < Fraction(1, 2))
        size = next(unsure, len(ids))
        ids = ids[: size + keep_last]
        found[ids] = found.get(ids, Fraction(0)) + probability
    for ids, probability in found.items():
        yield Draft(ids, rows_of(tables, ids)), probability


def rows_of(tables: Tables, ids: tuple[int, ...]) -> list[Distribution]:
    return [distribution(tables.q[ids[:i]], i) for i in range(len(ids))]


def wrong(rule: type[Exact], tables: Tables, proposals: Proposals) -> bool:
    return emitted_law(rule, tables, proposals) != tables.target_law()


def test_a_token_kept_and_stopped_after_is_exact() -> None:
    for tables in LONG:
        assert emitted_law(Exact, tables, cut_drafts(tables, keep_last=True)) == tables.target_law()


def test_a_token_discarded_for_its_own_probability_is_caught() -> None:
    assert sum(wrong(Exact, tables, cut_drafts(tables, keep_last=False)) for tables in SMALL) > len(SMALL) / 3


def test_argmax_drafts_accepted_with_p_over_q_are_caught() -> None:
    assert sum(wrong(Exact, tables, argmax_drafts(tables)) for tables in SMALL) > len(SMALL) / 3


def test_a_forgotten_residual_is_caught() -> None:
    assert sum(wrong(_ResampleFromTarget, tables, sampled(tables)) for tables in SMALL) > len(SMALL) / 3


def test_a_block_kept_by_its_ratio_alone_is_caught() -> None:
    """With the very cells under which the shipped rule keeps the law."""
    laws = [emitted_law(_RatioBlock, t, sampled(t), partial(block_thresholds, t)) for t in SMALL]
    assert sum(law != t.target_law() for law, t in zip(laws, SMALL, strict=True)) > len(SMALL) / 3


def test_a_one_hot_replacement_that_keeps_the_rejected_token_is_caught() -> None:
    for draft in one_hot(SMALL[0]):
        assert wrong(_ResampleFromTarget, SMALL[0], iter([(draft, ONE)]))


def test_typical_acceptance_is_lossy_and_says_so() -> None:
    assert not Typical.lossless
    assert any(wrong(Typical, tables, sampled(tables)) for tables in SMALL)
