from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest

from specchat.speculation.acceptance import (
    AcceptanceRule,
    Block,
    Coupled,
    Exact,
    Typical,
    acceptance_rule,
)
from specchat.speculation.distribution import Distribution, SamplingParams, warp
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.step import Draft, Origin, Step

from .enumeration import ScriptedGenerator

SAMPLING = (Exact, Block, Typical)


class Scripted:
    """A generator that gives the listed numbers, and fails when asked for more."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = iter(numbers)

    def random(self) -> float:
        return next(self._numbers)


def with_numbers(rule: type[Exact], *numbers: float) -> Exact:
    return rule(Scripted(*numbers))  # type: ignore[arg-type]


def dist(*probs: float) -> Distribution:
    return Distribution(None, np.array(probs))


class Rows:
    """A target that remembers which rows it was asked for."""

    def __init__(self, *rows: Distribution) -> None:
        self._rows = rows
        self.asked: list[int] = []

    def __call__(self, i: int) -> Distribution:
        self.asked.append(i)
        return self._rows[i]


CERTAIN = [Distribution.one_hot(token) for token in range(4)]
MODES = list(AcceptanceMode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("with_distributions", [False, True])
def test_greedy_accepts_up_to_the_first_token_that_is_not_the_argmax(
    mode: AcceptanceMode, with_distributions: bool
) -> None:
    rule = acceptance_rule(mode, seed=1)
    for ids, expected in {
        (1, 2, 3): Step((1, 2, 3, 0), accepted=3, tested=3, drafted=3),
        (1, 3, 3): Step((1, 2), accepted=1, tested=2, drafted=3),
        (0, 2, 3): Step((1,), accepted=0, tested=1, drafted=3),
        (): Step((1,), accepted=0, tested=0, drafted=0),
    }.items():
        target = Rows(CERTAIN[1], CERTAIN[2], CERTAIN[3], CERTAIN[0])
        draft = Draft(ids, [CERTAIN[token] for token in ids] if with_distributions else None)
        assert rule.accept(draft, target, position=5) == expected


@pytest.mark.parametrize("mode", MODES)
def test_rows_after_a_rejection_are_never_asked_for(mode: AcceptanceMode) -> None:
    target = Rows(CERTAIN[1], CERTAIN[2], CERTAIN[3], CERTAIN[0])
    acceptance_rule(mode, seed=1).accept(Draft((1, 3, 3), [CERTAIN[i] for i in (1, 3, 3)]), target, 0)
    assert target.asked == [0, 1]


@pytest.mark.parametrize("mode", MODES)
def test_no_row_is_asked_for_twice(mode: AcceptanceMode) -> None:
    row = dist(0.5, 0.5)
    for seed in range(20):
        target = Rows(row, row, row, row)
        draft = Draft((0, 1, 0), [dist(0.25, 0.75)] * 3)
        acceptance_rule(mode, seed).accept(draft, target, 0)
        assert len(set(target.asked)) == len(target.asked)


def test_exact_accepts_below_the_ratio_and_not_at_it() -> None:
    p, q = dist(0.25, 0.75), dist(0.5, 0.5)
    draft = Draft((0,), [q])
    below = with_numbers(Exact, 0.4999, 0.0).accept(draft, Rows(p, p), 0)
    at = with_numbers(Exact, 0.5, 0.0).accept(draft, Rows(p, p), 0)
    assert below == Step((0, 0), accepted=1, tested=1, drafted=1)
    assert at == Step((1,), accepted=0, tested=1, drafted=1)


@pytest.mark.parametrize("rule", SAMPLING)
def test_an_impossible_token_is_rejected_even_by_the_number_0(rule: type[Exact]) -> None:
    p, q = dist(0.0, 1.0), dist(0.5, 0.5)
    for draft in (Draft((0,), [q]), Draft((0,))):
        assert with_numbers(rule, 0.0, 0.0).accept(draft, Rows(p, p), 0).tokens == (1,)


def test_a_token_outside_the_targets_vocabulary_is_rejected() -> None:
    p = dist(0.25, 0.75)
    for rule in SAMPLING:
        step = with_numbers(rule, 0.0, 0.0).accept(Draft((9,)), Rows(p, p), 0)
        assert step.accepted == 0
        assert step.tokens == (0,)


@pytest.mark.parametrize("rule", [Exact, Block])
def test_a_draft_token_that_its_distribution_cannot_give_is_refused(rule: type[Exact]) -> None:
    p = dist(0.5, 0.5)
    with pytest.raises(ValueError, match="token 1 has probability 0"):
        with_numbers(rule, 0.5).accept(Draft((1,), [dist(1.0, 0.0)]), Rows(p, p), 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_draft_needs_a_distribution_for_each_token(mode: AcceptanceMode) -> None:
    p = dist(0.5, 0.5)
    with pytest.raises(ValueError, match="2 tokens came with 1 distributions"):
        acceptance_rule(mode, 0).accept(Draft((1, 0), [p]), Rows(p, p, p), 0)


@pytest.mark.parametrize("mode", MODES)
def test_tokens_are_plain_ints_whatever_the_draft_holds(mode: AcceptanceMode) -> None:
    p = dist(0.5, 0.5)
    for distributions in (None, [p, p]):
        draft = Draft(np.array([0, 1]), distributions)  # type: ignore[arg-type]
        step = acceptance_rule(mode, 3).accept(draft, Rows(p, p, p), 0)
        assert {type(token) for token in step.tokens} == {int}


def test_block_keeps_a_prefix_that_exact_would_reject() -> None:
    """The first ratio is 1/2, the second makes up for it: w = min(1/2 · 2, 1)."""
    q = dist(0.5, 0.5)
    draft = Draft((0, 0), [q, q])
    rows = (dist(0.25, 0.75), dist(1.0, 0.0), dist(0.0, 1.0))
    step = with_numbers(Block, 0.99, 0.0).accept(draft, Rows(*rows), 0)
    assert step == Step((0, 0, 1), accepted=2, tested=2, drafted=2)
    assert with_numbers(Exact, 0.99, 0.0).accept(draft, Rows(*rows), 0).accepted == 0


def test_block_takes_a_chance_of_0_over_0_for_1() -> None:
    """Rounding alone leads there: p falls short of q everywhere, and the prefix before it was certain."""
    q, short = dist(0.5, 0.5), dist(0.5 - 1e-9, 0.5 - 1e-9)
    step = with_numbers(Block, 1 - 1e-12, 0.5, 0.0).accept(Draft((0, 0), [q, q]), Rows(q, short, q), 0)
    assert step == Step((0, 0), accepted=1, tested=2, drafted=2)


def test_typical_accepts_by_its_threshold_and_replaces_by_the_targets_own_sample() -> None:
    flat = dist(*[0.05] * 20)  # exp(−H) = 0.05: the threshold is 0.3 · 0.05
    assert with_numbers(Typical, 0.0).accept(Draft((7,)), Rows(flat, flat), 0).accepted == 1
    steep = dist(0.85, 0.08, 0.07)  # the threshold is ε = 0.09
    assert min(0.09, 0.3 * math.exp(-steep.entropy())) == 0.09
    for token in (1, 2):
        generator = ScriptedGenerator([])
        rule = Typical(generator.as_generator())
        assert rule.accept(Draft((token,)), Rows(steep, steep), 0) == Step((0,), 0, 1, 1)
    assert with_numbers(Typical, 0.9).accept(Draft((2,)), Rows(steep, steep), 0).tokens == (1,)
    assert with_numbers(Typical, 0.99).accept(Draft((2,)), Rows(steep, steep), 0).tokens == (2,)
    middling = dist(*[0.08] * 5, *[0.06] * 10)  # between: δ·exp(−H) is about 0.02
    assert with_numbers(Typical, 0.0).accept(Draft((14,)), Rows(middling, middling), 0).accepted == 1
    rule = Typical(Scripted(0.0), epsilon=0.9, delta=0.9)  # type: ignore[arg-type]
    assert rule.accept(Draft((14,)), Rows(middling, middling), 0).accepted == 0


def test_origins_of_real_steps() -> None:
    rule = acceptance_rule(AcceptanceMode.EXACT, 0)
    rows = Rows(CERTAIN[1], CERTAIN[2], CERTAIN[3])
    assert rule.accept(Draft((1, 2)), rows, 0).origins == (Origin.ACCEPTED, Origin.ACCEPTED, Origin.BONUS)
    assert rule.accept(Draft((1, 3)), rows, 0).origins == (Origin.ACCEPTED, Origin.CORRECTED)
    assert rule.accept(Draft(), rows, 0).origins == (Origin.PLAIN,)


@pytest.mark.parametrize(
    ("mode", "kind", "lossless"),
    [("exact", Exact, True), ("block", Block, True), ("coupled", Coupled, True), ("typical", Typical, False)],
)
def test_the_factory_knows_each_mode(mode: str, kind: type, lossless: bool) -> None:
    rule = acceptance_rule(AcceptanceMode(mode), seed=None)
    assert type(rule) is kind
    assert (rule.name, rule.lossless) == (mode, lossless)


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_and_branch_fix_the_draws(mode: AcceptanceMode) -> None:
    p = dist(*[1 / 64] * 64)

    def text(seed: int | None, branch: int = 0) -> list[int]:
        rule = acceptance_rule(mode, seed, branch)
        return [rule.draw(p, i) for i in range(24)]

    assert text(5) == text(5)
    assert len({tuple(t) for t in (text(5), text(6), text(5, 1), text(None), text(None))}) == 5


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("seed", "branch"), [(-1, 0), (1, -1), (None, -1)])
def test_negative_seeds_are_refused(mode: AcceptanceMode, seed: int | None, branch: int) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        acceptance_rule(mode, seed, branch)


# Coupled: the text for a seed does not depend on the drafter.

PARAMS = SamplingParams(temperature=1.3, top_k=0, top_p=1, min_p=0)
TRUNCATED = SamplingParams(temperature=1.3, top_k=9, top_p=0.95, min_p=0.02, repeat_penalty=1.2, repeat_last_n=4)
Drafter = Callable[[AcceptanceRule, list[int], SamplingParams, int], Draft]


def logits(model: int, history: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.random.default_rng([model, *history[-2:]]).normal(0, 2, 30).astype(np.float32)


def model_drafter(model: int) -> Drafter:
    def propose(rule: AcceptanceRule, history: list[int], params: SamplingParams, size: int) -> Draft:
        ids: list[int] = []
        distributions = []
        for _ in range(size):
            distributions.append(warp(logits(model, history + ids), history + ids, params))
            ids.append(rule.draw(distributions[-1], len(history) + len(ids)))
        return Draft(ids, distributions)

    return propose


def lookup_drafter(rule: AcceptanceRule, history: list[int], params: SamplingParams, size: int) -> Draft:
    return Draft([history[-1 - i % len(history)] for i in range(size)])


def greedy_drafter(rule: AcceptanceRule, history: list[int], params: SamplingParams, size: int) -> Draft:
    ids: list[int] = []
    for _ in range(size):
        ids.append(int(logits(0, history + ids).argmax()))
    return Draft(ids)


def target_row(history: list[int], ids: list[int], params: SamplingParams, i: int) -> Distribution:
    return warp(logits(0, history + ids[:i]), history + ids[:i], params)


def generate(params: SamplingParams, seed: int, drafter: Drafter | None) -> tuple[list[int], int]:
    """Return 200 tokens of model 0, and how many of them were accepted drafts."""
    rule = acceptance_rule(AcceptanceMode.COUPLED, seed)
    history, accepted = [1, 2], 0
    sizes = np.random.default_rng(seed)
    while len(history) < 202:
        draft = drafter(rule, history, params, int(sizes.integers(0, 5))) if drafter else Draft()
        ids = list(draft.ids)
        step = rule.accept(draft, partial(target_row, history, ids, params), len(history))
        history = history + list(step.tokens)
        accepted += step.accepted
    return history[:202], accepted


@pytest.mark.parametrize("params", [PARAMS, TRUNCATED])
@pytest.mark.parametrize("drafter", [model_drafter(0), model_drafter(1), lookup_drafter, greedy_drafter])
def test_coupled_text_is_the_same_whatever_drafts(params: SamplingParams, drafter: Drafter) -> None:
    plain = [generate(params, seed, None)[0] for seed in range(3)]
    drafted = [generate(params, seed, drafter) for seed in range(3)]
    assert [text for text, _ in drafted] == plain
    assert sum(accepted for _, accepted in drafted) > 0
    assert plain[0] != plain[1]


def test_coupled_agrees_with_itself_always() -> None:
    rule = Coupled(3)
    row = warp(logits(0, [1]), [], PARAMS)
    ids = [rule.draw(row, 10 + i) for i in range(40)]
    step = rule.accept(Draft(ids, [row] * 40), lambda _: row, 10)
    assert step.accepted == 40
    assert rule.accept(Draft(ids, [row] * 40), lambda _: row, 11).accepted < 40
