"""Under `auto` the text is plain text, whatever the clock made it choose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.auto import AutoDrafter
from specchat.drafters.base import Drafter
from specchat.drafters.costs import Costs, PlainRate
from specchat.drafters.model import ModelDrafter
from specchat.drafters.prompt_lookup import PromptLookupDrafter
from specchat.drafters.suffix import SuffixDrafter
from specchat.engine.loop import Loop
from specchat.engine.stopping import StopRule, Unwatched
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.engine.table_model import VOCABULARY, TableModel
from tests.engine.test_loop import GREEDY, PENALISED, PROMPT, WARM, Run, is_end


class ByFancy(AutoDrafter):
    """Hears made-up times: every way of choosing must give the same text."""

    rng = np.random.default_rng(0)

    def record(self, draft: Draft, step: Step, draft_s: float, verify_s: float) -> None:
        super().record(draft, step, *self.rng.uniform(0.0001, 0.05, 2))


def written(params: SamplingParams, mode: AcceptanceMode, seed: int, tokens: int, prompt: Sequence[int]) -> Loop:
    target = TableModel(96, seed=seed)
    draft = ModelDrafter(TableModel(96, seed=seed, noise=1.0), VOCABULARY, is_end)
    free: dict[str, Drafter] = {"suffix": SuffixDrafter(), "prompt-lookup": PromptLookupDrafter()}
    auto = ByFancy(Costs(["fancy"], [*free], ["draft"], 15), free, {"draft": draft})
    auto.rng = np.random.default_rng(seed)
    loop = Loop(
        target,
        auto,
        Sampler(params, acceptance_rule(mode, seed=9)),
        depth=15,
        stop=StopRule(is_end, tokens, Unwatched()),
        plain_rate=PlainRate(["fancy"], sparing=False),
    )
    target.prefill(prompt[:-1])
    for _ in loop.run(prompt):
        assert target.tokens == loop.history[:-1]
    return loop


@given(st.integers(0, 10_000), st.sampled_from([GREEDY, WARM, PENALISED]), st.integers(2, 80))
@settings(max_examples=60, deadline=None)
def test_the_text_is_that_of_plain_decoding(seed: int, params: SamplingParams, tokens: int) -> None:
    plain = Run(params=params, noise=None, seed=seed, max_tokens=tokens, n_ctx=96).tokens()
    loop = written(params, AcceptanceMode.COUPLED, seed, tokens, PROMPT)
    assert loop.history[len(PROMPT) :] == plain


def test_the_steps_are_counted_by_who_drafted() -> None:
    drafted: dict[str, int] = {}
    for seed in range(30):
        metrics = written(GREEDY, AcceptanceMode.EXACT, seed, 80, PROMPT * 3).metrics
        assert sum(metrics.methods.values()) == sum(n for depth, n in metrics.depths.items() if depth)
        for source, count in metrics.methods.items():
            drafted[source] = drafted.get(source, 0) + count
    assert set(drafted) == {"suffix", "prompt-lookup", "draft"}


def test_the_plain_rate_comes_from_true_plain_steps() -> None:
    rate = PlainRate(["measured"], sparing=False)
    run = Run(max_tokens=120, n_ctx=256, end_bias=-50.0)
    run.loop._plain_rate = rate
    run.tokens()
    assert rate.baseline.tok_s(10) is not None
    assert run.loop.metrics.depths[0] >= 3


@pytest.mark.parametrize("tokens", [1, 2])
def test_an_answer_too_short_for_a_draft_starts_nothing(tokens: int) -> None:
    loop = written(GREEDY, AcceptanceMode.EXACT, 3, tokens, PROMPT)
    assert loop.metrics.drafted == 0
