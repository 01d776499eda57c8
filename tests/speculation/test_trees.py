"""Draft trees: the output is the target's own text, exactly, however the tree branches."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import pytest

from specchat.speculation.acceptance import AcceptanceRule, Block, Exact, Typical, acceptance_rule
from specchat.speculation.distribution import Distribution, SamplingParams, warp
from specchat.speculation.metrics import Metrics
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.step import Draft, Origin, Step
from specchat.speculation.tree import children

from .enumeration import Law, ScriptedGenerator, Tables, distribution

CASES = [
    *(Tables.random(seed, vocabulary=3, gamma=1, denominator=8) for seed in range(6)),
    *(Tables.random(seed, vocabulary=3, gamma=2) for seed in range(200, 212)),
    *(Tables.random(seed, vocabulary=2, gamma=3) for seed in range(300, 304)),
]


def random_tree(chance: random.Random, vocabulary: int, depth: int, nodes: int) -> Draft:
    """A tree no deeper than `depth`, siblings distinct."""
    ids: list[int] = []
    parents: list[int] = []
    levels: list[int] = []
    for _ in range(nodes):
        open_nodes = [-1, *(i for i, level in enumerate(levels) if level < depth)]
        parent = chance.choice(open_nodes)
        taken = {ids[i] for i, other in enumerate(parents) if other == parent}
        free = [token for token in range(vocabulary) if token not in taken]
        if free:
            ids.append(chance.choice(free))
            parents.append(parent)
            levels.append(1 if parent < 0 else levels[parent] + 1)
    return Draft(ids, parents=parents)


def trees(tables: Tables, count: int = 4) -> Iterator[Draft]:
    chance = random.Random(tables.name)
    for _ in range(count):
        yield random_tree(chance, tables.vocabulary, tables.gamma, chance.randint(1, 7))


def outcomes(
    rule: Callable[[np.random.Generator], AcceptanceRule], tables: Tables, draft: Draft
) -> Iterator[tuple[Step, Fraction]]:
    # A draw compares with sums of p alone: no quotients, as chains of sampled tokens need.
    generator = ScriptedGenerator(Fraction(k, tables.denominator) for k in range(tables.denominator))
    judge = rule(generator.as_generator())

    def target(row: int) -> Distribution:
        return distribution(tables.p[tuple(draft.prefix(row))], row)

    yield from generator.outcomes(lambda: judge.accept(draft, target, 7))


def law(rule: Callable[[np.random.Generator], AcceptanceRule], tables: Tables, draft: Draft) -> Law:
    emitted: Law = defaultdict(Fraction)
    for step, chance in outcomes(rule, tables, draft):
        emitted[step.tokens] += chance
    return tables.continued(emitted)


@pytest.mark.parametrize("rule", [Exact, Block])
@pytest.mark.parametrize("tables", CASES, ids=str)
def test_a_tree_keeps_the_law(rule: type[Exact], tables: Tables) -> None:
    for draft in trees(tables):
        assert law(rule, tables, draft) == tables.target_law()


@pytest.mark.parametrize("tables", CASES[::2], ids=str)
def test_every_node_is_reached_as_often_as_the_target_writes_its_tokens(tables: Tables) -> None:
    """The most that any exact rule can accept of deterministic proposals: no less, and no more."""
    for draft in trees(tables):
        reached: dict[int, Fraction] = defaultdict(Fraction)
        for step, chance in outcomes(Exact, tables, draft):
            assert step.path is not None
            assert step.tokens[: step.accepted] == tuple(draft.ids[node] for node in step.path)
            for node in step.path:
                reached[node] += chance
        for node in range(len(draft)):
            tokens = draft.prefix(node + 1)
            expected = Fraction(1)
            for i, token in enumerate(tokens):
                expected *= tables.p[tuple(tokens[:i])][token]
            assert reached[node] == expected


class _ChildrenAlone(Exact):
    """The classic fault: each child tried with its own p, as if those before it had not been refused."""

    def _choose(self, p: Distribution, proposed: Sequence[int], position: int) -> tuple[int, bool]:
        for token in proposed:
            if self._rng.random() < p.prob(token):
                return token, True
        return self.draw(p, position), False


def test_children_tried_without_the_residual_are_caught() -> None:
    drafts = [(tables, draft) for tables in CASES[6:12] for draft in trees(tables)]
    wrong = [law(_ChildrenAlone, tables, draft) != tables.target_law() for tables, draft in drafts]
    assert sum(wrong) > len(wrong) / 3


@pytest.mark.parametrize("rule", [Exact, Block])
def test_a_tree_without_branches_has_the_law_of_its_chain(rule: type[Exact]) -> None:
    for tables in CASES[6:12]:
        ids = (0, 1)
        chain = law(rule, tables, Draft(ids, parents=(-1, 0)))
        assert chain == law(rule, tables, Draft(ids)) == tables.target_law()


# What a step says of the walk.

ROW = np.array([0.1, 0.2, 0.3, 0.4])
TREE = Draft((3, 2, 3, 1), parents=(-1, -1, 0, 2))
"""3 → 3 → 1, and 2 beside the first."""


def certain(*tokens: int) -> Callable[[int], Distribution]:
    """A target that writes `tokens` after the rows 0, 1, …."""
    return lambda row: Distribution.one_hot(tokens[row])


@pytest.mark.parametrize("mode", list(AcceptanceMode))
@pytest.mark.parametrize(
    ("rows", "tokens", "path", "tested", "last"),
    [
        ((3, 3, 0, 1, 2), (3, 3, 1, 2), (0, 2, 3), 3, Origin.BONUS),
        ((3, 3, 0, 0, 2), (3, 3, 0), (0, 2), 3, Origin.CORRECTED),
        ((3, 1, 0, 0, 2), (3, 1), (0,), 2, Origin.CORRECTED),
        ((2, 3, 0, 1, 2), (2, 0), (1,), 1, Origin.BONUS),
        ((0, 3, 0, 1, 2), (0,), (), 1, Origin.CORRECTED),
    ],
)
def test_the_walk_is_told_truly(
    mode: AcceptanceMode,
    rows: tuple[int, ...],
    tokens: tuple[int, ...],
    path: tuple[int, ...],
    tested: int,
    last: Origin,
) -> None:
    step = acceptance_rule(mode, 1).accept(TREE, certain(*rows), 5)
    assert step == Step(tokens, len(path), tested, 4, path)
    assert step.origins == (Origin.ACCEPTED,) * len(path) + (last,)


def test_a_cut_tree_step_counts_what_is_left_of_it() -> None:
    step = Step((3, 3, 1, 2), accepted=3, tested=3, drafted=4, path=(0, 2, 3))
    assert step.cut(2) == Step((3, 3), accepted=2, tested=2, drafted=4, path=(0, 2))
    assert step.cut(2).origins == (Origin.ACCEPTED,) * 2
    assert step.cut(0) == Step((), accepted=0, tested=0, drafted=4, path=())


def test_metrics_count_levels_of_the_walked_path() -> None:
    metrics = Metrics()
    metrics.record(Step((3, 3, 1, 2), 3, 3, 4, (0, 2, 3)), 0, 0)
    metrics.record(Step((2, 0), 1, 1, 4, (1,)), 0, 0)
    metrics.record(Step((0,), 0, 1, 4, ()), 0, 0)
    assert (metrics.drafted, metrics.tested, metrics.accepted, metrics.emitted) == (12, 5, 4, 7)
    assert metrics.alpha == 4 / 5
    assert list(metrics.per_position) == [2 / 3, 1, 1]
    metrics.record(Step((3, 1), 1, 2, 2), 0, 0)
    assert metrics.trees == 3


def test_typical_acceptance_keeps_the_first_child_that_passes() -> None:
    rule = Typical(np.random.default_rng(0), epsilon=0.15, delta=10)
    flat = Distribution(None, ROW)
    assert rule.accept(Draft((0, 1, 3), parents=(-1, -1, -1)), lambda _: flat, 0).path == (1,)
    assert rule.accept(Draft((0,), parents=(-1,)), lambda _: flat, 0).path == ()


@pytest.mark.parametrize(
    "draft",
    [
        Draft((1, 2), parents=(-1,)),
        Draft((1, 2), parents=(-1, 1)),
        Draft((1, 2), parents=(1, -1)),
        Draft((1, 2), parents=(-1, -2)),
        Draft((1,), [Distribution(None, ROW)], parents=(-1,)),
    ],
)
def test_what_is_no_tree_of_deterministic_proposals_is_refused(draft: Draft) -> None:
    for mode in AcceptanceMode:
        with pytest.raises(ValueError, match="tree"):
            acceptance_rule(mode, 1).accept(draft, certain(0, 0, 0), 0)


def test_a_row_knows_the_tokens_before_it() -> None:
    assert [list(TREE.prefix(row)) for row in range(5)] == [[], [3], [2], [3, 3], [3, 3, 1]]
    assert [list(Draft((4, 5)).prefix(row)) for row in range(3)] == [[], [4], [4, 5]]
    assert children(TREE) == {-1: [0, 1], 0: [2], 2: [3]}


# Coupled: the text for a seed does not depend on the tree.

PARAMS = SamplingParams(temperature=1.2, top_k=9, top_p=0.95, min_p=0.02, repeat_penalty=1.2, repeat_last_n=4)
GREEDY = SamplingParams(temperature=0, repeat_penalty=1.2)


def row(history: Sequence[int], params: SamplingParams) -> Distribution:
    logits = np.random.default_rng(list(history[-2:])).normal(0, 2, 12).astype(np.float32)
    return warp(logits, history, params)


def text(params: SamplingParams, mode: AcceptanceMode, seed: int, nodes: int) -> tuple[list[int], int]:
    rule = acceptance_rule(mode, seed)
    chance = random.Random(seed)
    history, accepted = [1, 2], 0
    while len(history) < 122:
        draft = random_tree(chance, 12, 4, nodes) if nodes else Draft()
        before = list(history)

        def target(i: int, draft: Draft = draft, before: list[int] = before) -> Distribution:
            return row([*before, *draft.prefix(i)], params)

        step = rule.accept(draft, target, len(history))
        history += step.tokens
        accepted += step.accepted
    return history[:122], accepted


def test_coupled_text_is_the_same_whatever_tree_drafts() -> None:
    for seed in range(3):
        plain, _ = text(PARAMS, AcceptanceMode.COUPLED, seed, 0)
        drafted, accepted = text(PARAMS, AcceptanceMode.COUPLED, seed, 20)
        assert drafted == plain
        assert accepted > 20


@pytest.mark.parametrize("mode", list(AcceptanceMode))
def test_greedy_text_is_the_same_under_every_rule(mode: AcceptanceMode) -> None:
    plain, _ = text(GREEDY, mode, 4, 0)
    drafted, accepted = text(GREEDY, mode, 4, 20)
    assert drafted == plain
    assert accepted > 10
