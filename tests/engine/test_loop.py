"""The loop on a table of logits: same text as plain decoding, caches that agree with the transcript, clean ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.base import Drafter, NoDrafter
from specchat.drafters.model import ModelDrafter
from specchat.engine.loop import Loop
from specchat.engine.stopping import FinishReason, StopRule, Unwatched, Watcher
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Origin, Step
from tests.engine.table_model import END, VOCABULARY, Broken, TableModel

PROMPT = [3, 5, 1, 4]
GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=0.8, top_k=0, top_p=1, min_p=0)
PENALISED = SamplingParams(temperature=0.8, repeat_penalty=1.4, presence_penalty=0.3, frequency_penalty=0.2)


def is_end(token: int) -> bool:
    return token == END


class Run:
    """One answer, with its parts at hand."""

    def __init__(
        self,
        *,
        depth: int = 3,
        params: SamplingParams = GREEDY,
        mode: AcceptanceMode = AcceptanceMode.COUPLED,
        noise: float | None = 1.0,
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
        self.draft = TableModel(n_ctx, seed=seed, noise=noise or 0.0, end_bias=end_bias)
        self.drafter: Drafter = NoDrafter()
        if noise is not None:
            self.drafter = ModelDrafter(self.draft, VOCABULARY, is_end)
        self.sampler = Sampler(params, acceptance_rule(mode, seed=9))
        self.loop = Loop(
            self.target,
            self.drafter,
            self.sampler,
            depth=depth,
            stop=StopRule(is_end, max_tokens, watcher or Unwatched()),
            cancelled=cancelled,
        )
        self.target.prefill(self.prompt[:-1])

    def steps(self) -> list[Step]:
        steps = []
        for step in self.loop.run(self.prompt):
            steps.append(step)
            self.check_caches()
        self.check_caches()
        return steps

    def tokens(self) -> list[int]:
        self.steps()
        return self.written

    @property
    def written(self) -> list[int]:
        return self.loop.history[len(self.prompt) :]

    def check_caches(self) -> None:
        history = self.loop.history
        assert self.target.tokens == history[:-1]
        assert self.draft.tokens == history[: len(self.draft.tokens)]
        assert len(self.draft.tokens) < len(history)


def plain(**options: object) -> list[int]:
    return Run(noise=None, depth=0, **options).tokens()  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", range(1, 8))
@pytest.mark.parametrize("noise", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("params", [GREEDY, WARM, PENALISED], ids=["greedy", "warm", "penalised"])
def test_text_is_the_same_whatever_drafts(depth: int, noise: float, params: SamplingParams) -> None:
    for seed in range(6):
        expected = plain(params=params, seed=seed)
        assert Run(depth=depth, noise=noise, params=params, seed=seed).tokens() == expected


@pytest.mark.parametrize("mode", list(AcceptanceMode))
def test_greedy_text_is_the_same_under_every_rule(mode: AcceptanceMode) -> None:
    for seed in range(6):
        assert Run(mode=mode, seed=seed).tokens() == plain(seed=seed)


def test_a_perfect_draft_is_accepted_whole_and_followed_by_a_bonus() -> None:
    run = Run(noise=0.0, depth=4, end_bias=-50, max_tokens=1 + 3 * 5)
    steps = run.steps()
    assert [step.accepted for step in steps] == [0, 4, 4, 4]
    assert steps[0].origins == (Origin.PLAIN,)
    assert steps[1].origins == (Origin.ACCEPTED,) * 4 + (Origin.BONUS,)
    assert run.loop.metrics.alpha == 1
    # The first step is plain: no token waits for the draft to read the prompt.
    assert run.loop.metrics.tokens_per_step == pytest.approx(16 / 4)


def test_plain_decoding_is_one_token_a_pass() -> None:
    run = Run(noise=None, depth=0)
    run.steps()
    assert run.loop.metrics.tokens_per_step == 1
    assert run.loop.metrics.alpha is None
    assert run.target.passes == len(run.written)


def test_an_answer_ends_with_its_end_token_also_inside_a_draft() -> None:
    ended_inside = 0
    for seed in range(40):
        run = Run(noise=0.0, depth=5, params=WARM, seed=seed, end_bias=1.0)
        steps = run.steps()
        if run.loop.finish_reason is not FinishReason.STOP:
            continue
        assert run.written[-1] == END
        assert END not in run.written[:-1]
        last = steps[-1]
        ended_inside += last.origins[-1] is Origin.ACCEPTED
        assert sum(len(step.tokens) for step in steps) == len(run.written) == run.loop.metrics.emitted
    assert ended_inside > 5


@pytest.mark.parametrize("depth", [0, 1, 3, 7])
def test_a_full_context_is_a_clean_end(depth: int) -> None:
    for n_ctx in range(len(PROMPT) + 1, len(PROMPT) + 14):
        run = Run(depth=depth, n_ctx=n_ctx, max_tokens=None, end_bias=-50, noise=0.5)
        written = run.tokens()
        assert run.loop.finish_reason is FinishReason.LENGTH
        # Every cell is used, and the last token needs none.
        assert len(run.prompt) + len(written) == n_ctx + 1
        assert written == plain(n_ctx=n_ctx, max_tokens=None, end_bias=-50)


@pytest.mark.parametrize("wanted", range(1, 12))
def test_a_limit_is_kept_exactly_and_never_drafted_past(wanted: int) -> None:
    run = Run(depth=5, noise=0.0, max_tokens=wanted, end_bias=-50)
    steps = run.steps()
    assert len(run.written) == wanted
    assert run.loop.finish_reason is FinishReason.LENGTH
    assert all(step.drafted < wanted for step in steps)
    assert sum(len(step.tokens) for step in steps) == wanted


class EndsAfter:
    """Ends the answer after the n-th token."""

    def __init__(self, n: int) -> None:
        self.left = n

    def take(self, tokens: Sequence[int]) -> int | None:
        if self.left <= len(tokens):
            return self.left
        self.left -= len(tokens)
        return None


@pytest.mark.parametrize("n", range(1, 12))
def test_what_lies_past_a_stop_is_cut_from_text_cache_and_metrics(n: int) -> None:
    run = Run(depth=4, noise=0.0, watcher=EndsAfter(n), end_bias=-50)
    run.steps()
    assert run.loop.finish_reason is FinishReason.STOP
    assert len(run.written) == n == run.loop.metrics.emitted
    assert run.loop.metrics.accepted <= run.loop.metrics.tested <= n


@given(
    depth=st.integers(0, 7),
    stop_at=st.integers(0, 15),
    n_ctx=st.integers(6, 40),
    noise=st.sampled_from([0.0, 0.5, 2.0]),
    seed=st.integers(0, 50),
)
@settings(max_examples=150, deadline=None)
def test_cancelled_anywhere_and_continued_it_reads_as_if_never_stopped(
    depth: int, stop_at: int, n_ctx: int, noise: float, seed: int
) -> None:
    asked = iter(range(1000))
    run = Run(depth=depth, n_ctx=n_ctx, noise=noise, seed=seed, params=WARM, cancelled=lambda: next(asked) >= stop_at)
    partial = run.tokens()
    whole = plain(n_ctx=n_ctx, seed=seed, params=WARM)
    assert partial == whole[: len(partial)]
    if run.loop.finish_reason is FinishReason.CANCELLED and 40 - len(partial) > 0:
        rest = Run(
            depth=depth, n_ctx=n_ctx, noise=noise, seed=seed, params=WARM,
            prompt=run.loop.history, max_tokens=40 - len(partial),
        )  # fmt: skip
        assert partial + rest.tokens() == whole


@pytest.mark.parametrize("fails", ["target", "draft"])
@pytest.mark.parametrize("at", range(1, 9))
def test_a_failed_pass_leaves_transcript_and_caches_in_step(fails: str, at: int) -> None:
    run = Run(depth=3, noise=0.5, end_bias=-50)
    (run.target if fails == "target" else run.draft).fail_at = at
    emitted: list[int] = []
    steps = run.loop.run(run.prompt)
    with pytest.raises(Broken):
        emitted.extend(token for step in steps for token in step.tokens)
    assert run.written == emitted == plain(end_bias=-50)[: len(emitted)]
    # The draft may hold what it proposed in vain; the next answer's begin() cuts that.
    run.drafter.begin(run.loop.history, run.sampler)
    run.check_caches()


def test_a_reader_that_leaves_finds_everything_in_step() -> None:
    run = Run(depth=3, noise=0.5)
    steps = run.loop.run(run.prompt)
    next(steps)
    next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert run.loop.finish_reason is None
    run.check_caches()
