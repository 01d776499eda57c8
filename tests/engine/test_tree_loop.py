"""The loop with draft trees, on a table of logits: same text as plain decoding, whatever branches, stops or fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from specchat.drafters.base import Drafter
from specchat.drafters.lookahead import LookaheadDrafter
from specchat.drafters.method import Method
from specchat.engine.loop import Loop
from specchat.engine.stopping import FinishReason, StopRule, Unwatched, Watcher
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Origin, Step
from tests.engine.table_model import END, VOCABULARY, Broken, TableModel
from tests.engine.test_loop import GREEDY, PENALISED, PROMPT, WARM, EndsAfter, is_end, plain


class Bushy:
    """Proposes random trees of tokens that are likely after each other; now and then a chain or nothing."""

    method = Method.SUFFIX

    def __init__(self, seed: int, spread: int = 4, always_trees: bool = False, end_bias: float = -2.0) -> None:
        self._chance = random.Random(seed)
        self._table = TableModel(1, seed=seed, end_bias=end_bias)
        self._spread = spread
        self._always_trees = always_trees
        self.ids: list[int] = []

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        self.ids = list(ids)

    def propose(self, limit: int) -> Draft:
        nodes = self._chance.randint(1 if self._always_trees else 0, limit)
        ids: list[int] = []
        parents: list[int] = []
        chain = not self._always_trees and self._chance.random() < 0.2
        for node in range(nodes):
            parent = node - 1 if chain else self._chance.randrange(-1, node)
            before = [*self.ids[-2:], *Draft(ids, parents=parents).prefix(parent + 1)][-2:]
            likely = np.argsort(-self._table.row(before[0], before[1]))[: self._spread].tolist()
            taken = [ids[i] for i in range(node) if parents[i] == parent]
            ids.append(next((token for token in likely if token not in taken), self._chance.randrange(VOCABULARY)))
            parents.append(parent)
        return Draft(ids, parents=None if chain else parents)

    def commit(self, step: Step) -> None:
        self.ids.extend(step.tokens)

    def close(self) -> None:
        pass


class TreeRun:
    """One answer drafted by trees, with its parts at hand."""

    def __init__(
        self,
        drafter: Drafter,
        *,
        depth: int = 6,
        params: SamplingParams = GREEDY,
        mode: AcceptanceMode = AcceptanceMode.COUPLED,
        n_ctx: int = 64,
        max_tokens: int | None = 40,
        end_bias: float = -2.0,
        seed: int = 1,
        watcher: Watcher | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        prompt: Sequence[int] = PROMPT,
    ) -> None:
        self.prompt = list(prompt)
        self.target = TableModel(n_ctx, seed=seed, end_bias=end_bias)
        self.drafter = drafter
        self.sampler = Sampler(params, acceptance_rule(mode, seed=9))
        stop = StopRule(is_end, max_tokens, watcher or Unwatched())
        self.loop = Loop(self.target, drafter, self.sampler, depth=depth, stop=stop, cancelled=cancelled)
        self.target.prefill(self.prompt[:-1])

    @property
    def written(self) -> list[int]:
        return self.loop.history[len(self.prompt) :]

    def steps(self) -> list[Step]:
        steps = []
        for step in self.loop.run(self.prompt):
            steps.append(step)
            self.check()
        self.check()
        assert [token for step in steps for token in step.tokens] == self.written
        return steps

    def tokens(self) -> list[int]:
        self.steps()
        return self.written

    def check(self) -> None:
        assert self.target.tokens == self.loop.history[:-1]


@pytest.mark.parametrize("depth", [1, 3, 7])
@pytest.mark.parametrize("params", [GREEDY, WARM, PENALISED], ids=["greedy", "warm", "penalised"])
def test_text_is_the_same_whatever_tree_drafts(depth: int, params: SamplingParams) -> None:
    branched = accepted = 0
    for seed in range(8):
        run = TreeRun(Bushy(seed), depth=depth, params=params, seed=seed)
        assert run.tokens() == plain(params=params, seed=seed)
        branched += run.target.tree_passes
        accepted += run.loop.metrics.accepted
    assert branched > 20
    assert accepted > 10


@pytest.mark.parametrize("mode", list(AcceptanceMode))
def test_greedy_text_is_the_same_under_every_rule(mode: AcceptanceMode) -> None:
    for seed in range(6):
        assert TreeRun(Bushy(seed), mode=mode, seed=seed).tokens() == plain(seed=seed)


def test_a_tree_of_all_likely_tokens_goes_deeper_than_any_chain_of_it() -> None:
    run = TreeRun(Bushy(1, spread=3, always_trees=True), depth=12, params=WARM, end_bias=-50)
    steps = run.steps()
    assert any(step.path and list(step.path) != list(range(len(step.path))) for step in steps)
    assert {step.origins[-1] for step in steps} == {Origin.PLAIN, Origin.CORRECTED, Origin.BONUS}
    metrics = run.loop.metrics
    assert metrics.trees == run.target.tree_passes == len(steps) - 1
    assert metrics.accepted <= metrics.tested <= metrics.drafted


@given(
    depth=st.integers(0, 8),
    stop_at=st.integers(0, 15),
    n_ctx=st.integers(6, 40),
    seed=st.integers(0, 200),
    bias=st.sampled_from([-50.0, -2.0, 1.0]),
    lookahead=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_cancelled_anywhere_and_continued_it_reads_as_if_never_stopped(
    depth: int, stop_at: int, n_ctx: int, seed: int, bias: float, lookahead: bool
) -> None:
    asked = iter(range(1000))
    drafter: Drafter = LookaheadDrafter(leaves=4) if lookahead else Bushy(seed)
    run = TreeRun(
        drafter, depth=depth, n_ctx=n_ctx, seed=seed, params=WARM, end_bias=bias,
        cancelled=lambda: next(asked) >= stop_at,
    )  # fmt: skip
    partial = run.tokens()
    whole = plain(n_ctx=n_ctx, seed=seed, params=WARM, end_bias=bias)
    assert partial == whole[: len(partial)]
    if run.loop.finish_reason is FinishReason.CANCELLED and len(partial) < 40:
        rest = TreeRun(
            drafter, depth=depth, n_ctx=n_ctx, seed=seed, params=WARM, end_bias=bias,
            prompt=run.loop.history, max_tokens=40 - len(partial),
        )  # fmt: skip
        assert partial + rest.tokens() == whole
    else:
        assert partial == whole


@pytest.mark.parametrize("n", range(1, 12))
def test_what_lies_past_a_stop_is_cut_from_text_cache_and_metrics(n: int) -> None:
    for seed in range(5):
        drafter = Bushy(seed, spread=2, always_trees=True)
        run = TreeRun(drafter, depth=8, seed=seed, watcher=EndsAfter(n), end_bias=-50)
        run.steps()
        assert run.loop.finish_reason is FinishReason.STOP
        assert run.written == plain(seed=seed, end_bias=-50)[:n]
        assert run.loop.metrics.emitted == n
        assert run.loop.metrics.accepted <= run.loop.metrics.tested <= n


@pytest.mark.parametrize("n_ctx", range(len(PROMPT) + 1, len(PROMPT) + 14))
def test_a_full_context_is_a_clean_end(n_ctx: int) -> None:
    run = TreeRun(Bushy(3), depth=8, n_ctx=n_ctx, max_tokens=None, end_bias=-50)
    assert run.tokens() == plain(n_ctx=n_ctx, max_tokens=None, end_bias=-50)
    assert run.loop.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("at", range(1, 9))
def test_a_failed_pass_leaves_transcript_and_cache_in_step(at: int) -> None:
    run = TreeRun(Bushy(2, always_trees=True), end_bias=-50)
    run.target.fail_at = at
    emitted: list[int] = []
    with pytest.raises(Broken):
        emitted.extend(token for step in run.loop.run(run.prompt) for token in step.tokens)
    assert run.written == emitted == plain(end_bias=-50)[: len(emitted)]
    run.check()


class Listening(Bushy):
    """Reads every row of a pass, and remembers what it saw; fails when told to."""

    def __init__(self, seed: int, fail_at: int | None = None) -> None:
        super().__init__(seed, end_bias=-50)
        self.seen: list[tuple[list[int], list[int], Step]] = []
        self._fail_at = fail_at

    def observe(self, rows: NDArray[np.float32], draft: Draft, step: Step) -> None:
        if len(self.seen) == self._fail_at:
            raise Broken
        assert len(rows) == len(draft) + 1
        for row in range(len(rows)):
            before = [*self.ids, *draft.prefix(row)][-2:]
            assert np.array_equal(rows[row], self._table.row(before[0], before[1]))
        self.seen.append((list(self.ids), list(draft.ids), step))


def test_a_drafter_that_reads_rows_sees_every_one_of_every_pass() -> None:
    drafter = Listening(1)
    steps = TreeRun(drafter, params=WARM, end_bias=-50).steps()
    # The first step is plain: the drafter is not told of the text before it.
    assert [step for _, _, step in drafter.seen] == steps[1:]


def test_a_failing_reader_leaves_transcript_and_cache_in_step() -> None:
    for at in range(4):
        run = TreeRun(Listening(1, at), end_bias=-50)
        with pytest.raises(Broken):
            list(run.loop.run(run.prompt))
        run.check()
        assert run.written == plain(end_bias=-50)[: len(run.written)]


@pytest.mark.parametrize("leaves", [1, 4])
@pytest.mark.parametrize("params", [GREEDY, WARM, PENALISED], ids=["greedy", "warm", "penalised"])
def test_lookahead_never_changes_the_text(params: SamplingParams, leaves: int) -> None:
    drafter = LookaheadDrafter(leaves=leaves)
    accepted = branched = 0
    for seed in range(8):
        # One drafter for all: a pool full of another text's n-grams costs speed, never a token.
        run = TreeRun(drafter, depth=7, seed=seed, params=params, end_bias=-50)
        assert run.tokens() == plain(seed=seed, params=params, end_bias=-50)
        accepted += run.loop.metrics.accepted
        branched += run.target.tree_passes
    assert accepted > 20
    assert (branched > 20) is (leaves > 1)


def test_the_end_token_ends_an_answer_also_inside_a_tree() -> None:
    inside = 0
    for seed in range(40):
        drafter = Bushy(seed, spread=3, always_trees=True, end_bias=1.0)
        run = TreeRun(drafter, depth=8, seed=seed, params=WARM, end_bias=1.0)
        steps = run.steps()
        if run.loop.finish_reason is FinishReason.STOP:
            assert run.written.index(END) == len(run.written) - 1
            inside += steps[-1].origins[-1] is Origin.ACCEPTED
    assert inside > 5
