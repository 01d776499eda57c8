"""Early exit drafts on the target's own context and leaves no trace there."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.base import NoDrafter
from specchat.drafters.early_exit import (
    EarlyExitDrafter,
    EarlyExitUnavailable,
    choose_exit,
    frequent_tokens,
    open_early_exit,
)
from specchat.engine.loop import Loop
from specchat.engine.stopping import StopRule, Unwatched
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import DecodeFailed
from specchat.llama.head import Head, OutputEnd, cut_head
from specchat.llama.model import Model
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.tiny_model import write_model, write_recurrent_model

GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=0.8, repeat_penalty=1.2)
LAYERS = 4


def sampler(params: SamplingParams = WARM, seed: int = 5) -> Sampler:
    return Sampler(params, acceptance_rule(AcceptanceMode.COUPLED, seed))


def sizes(n_ctx: int = 64, threads: int = 1, layer_tap: bool = True) -> ContextParams:
    return ContextParams(n_ctx, 8, threads, n_batch=64, layer_tap=layer_tap)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write_model(tmp_path_factory.mktemp("exit") / "four.gguf", layers=LAYERS, seed=3, spread=0.3)
    with Model(path) as model:
        yield model


@pytest.fixture(scope="module")
def target(model: Model) -> Iterator[Context]:
    with Context(model, sizes()) as context:
        yield context


@pytest.fixture
def drafter(target: Context) -> Iterator[EarlyExitDrafter]:
    target.clear()
    drafter = open_early_exit(target, exit_layer=3)
    yield drafter
    drafter.close()


def written(
    target: Context, drafter: EarlyExitDrafter | NoDrafter, prompt: Sequence[int], sampler: Sampler
) -> list[int]:
    """The answer's ids, as the loop writes it."""
    target.clear()
    target.prefill(prompt[:-1])
    stop = StopRule(target.model.vocab.is_end_of_generation, 40, Unwatched())
    loop = Loop(target, drafter, sampler, depth=5, stop=stop)
    tokens = [token for step in loop.run(prompt) for token in step.tokens]
    assert target.tokens == loop.history[:-1]
    return tokens


def test_after_all_layers_every_draft_is_accepted(target: Context) -> None:
    target.clear()
    drafter = open_early_exit(target, exit_layer=LAYERS)
    target.prefill([270, 271])
    stop = StopRule(lambda _token: False, 30, Unwatched())
    loop = Loop(target, drafter, sampler(GREEDY), depth=4, stop=stop)
    for _ in loop.run([270, 271, 272]):
        pass
    drafter.close()
    assert loop.metrics.accepted == loop.metrics.tested > 15


@pytest.mark.parametrize("params", [GREEDY, WARM])
def test_the_text_is_that_of_plain_decoding(target: Context, drafter: EarlyExitDrafter, params: SamplingParams) -> None:
    for seed in range(4):
        prompt = [270 + seed, 281, 262, 279]
        plain = written(target, NoDrafter(), prompt, sampler(params, seed))
        assert written(target, drafter, prompt, sampler(params, seed)) == plain


@given(seed=st.integers(0, 10_000), length=st.integers(1, 20))
@settings(max_examples=40, deadline=None)
def test_after_any_history_it_proposes_as_a_fresh_one(target: Context, seed: int, length: int) -> None:
    chance = random.Random(seed)
    drafter, vocabulary = open_early_exit(target, exit_layer=2), target.model.vocab.size
    ids = [chance.randrange(vocabulary) for _ in range(length)]
    drafter.begin(ids, sampler())
    for _ in range(chance.randrange(1, 6)):
        if chance.random() < 0.3:
            ids = ids[: chance.randrange(1, len(ids) + 1)]
            ids += [chance.randrange(vocabulary) for _ in range(chance.randrange(0, 4))]
            drafter.begin(ids, sampler())
        target.clear()
        target.prefill(ids[:-1])
        limit = chance.randrange(0, 6)
        draft, expected = drafter.propose(limit), fresh(target, ids, limit)
        assert list(draft.ids) == list(expected.ids)
        assert target.tokens == ids[:-1]
        accepted = chance.randrange(0, len(draft.ids) + 1)
        own = chance.randrange(vocabulary)
        step = Step((*draft.ids[:accepted], own), accepted, min(accepted + 1, len(draft.ids)), len(draft.ids))
        drafter.commit(step)
        ids = [*ids, *step.tokens]
        if len(ids) > 50:
            break
    drafter.close()


def fresh(target: Context, ids: Sequence[int], limit: int) -> Draft:
    drafter = open_early_exit(target, exit_layer=2)
    drafter.begin(ids, sampler())
    draft = drafter.propose(limit)
    drafter.close()
    return draft


class Interrupted(BaseException):
    """As Ctrl-C: no Exception."""


@pytest.mark.parametrize("error", [Interrupted, DecodeFailed])
@pytest.mark.parametrize("after", [0, 1, 2])
def test_stopped_in_the_middle_of_a_draft_the_context_holds_what_was_verified(
    target: Context,
    drafter: EarlyExitDrafter,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    error: type[BaseException],
) -> None:
    prompt = [270, 271, 272, 273]
    target.prefill(prompt[:-1])
    drafter.begin(prompt, sampler())
    whole = list(drafter.propose(5).ids)
    assert len(whole) > after
    logits, calls = Head.logits, iter(range(10))

    def failing(head: Head, state: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> object:
        if next(calls) == after:
            raise error
        return logits(head, state)

    with monkeypatch.context() as patch:
        patch.setattr(Head, "logits", failing)
        with pytest.raises(error):
            drafter.propose(5)
    assert target.tokens == prompt[:-1]
    assert list(drafter.propose(5).ids) == whole
    own = target.decode(prompt[-1:]).copy()
    target.clear()
    target.prefill(prompt[:-1])
    np.testing.assert_array_equal(target.decode(prompt[-1:]), own)


def test_a_cache_that_holds_something_else_is_not_drafted_from(target: Context, drafter: EarlyExitDrafter) -> None:
    target.prefill([270, 271, 272])
    for ids in ([270, 271, 279, 280], [270, 271, 272], [270]):
        drafter.begin(ids, sampler())
        assert len(drafter.propose(3)) == 0
        assert target.tokens == [270, 271, 272]


def test_drafting_stops_where_the_context_does(target: Context, drafter: EarlyExitDrafter) -> None:
    ids = [270 + i % 9 for i in range(target.n_ctx - 2)]
    target.prefill(ids[:-1])
    drafter.begin(ids, sampler())
    assert 1 <= len(drafter.propose(5)) <= 2


def test_a_head_of_some_tokens_drafts_only_those_and_says_with_which_chance(target: Context, tmp_path: Path) -> None:
    kept = [2, *range(262, 280, 3)]
    cut_head(OutputEnd(target.model.path), tmp_path / "some.gguf", kept)
    drafter = EarlyExitDrafter(target, Head(tmp_path / "some.gguf", threads=1), 3, lambda _token: False)
    prompt = [270, 271, 272, 273]
    for params in (SamplingParams(1, 0, 1, 0), WARM, GREEDY):
        target.clear()
        target.prefill(prompt[:-1])
        drafter.begin(prompt, sampler(params))
        draft = drafter.propose(5)
        assert draft.distributions is not None
        for token, q in zip(draft.ids, draft.distributions, strict=True):
            assert token in kept
            assert q.prob(token) > 0
            assert sum(q.prob(i) for i in kept) == pytest.approx(1, abs=1e-5)
        plain = written(target, NoDrafter(), prompt, sampler(params))
        assert written(target, drafter, prompt, sampler(params)) == plain
    drafter.close()


def test_a_running_state_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with Model(write_recurrent_model(tmp_path / "mamba.gguf")) as recurrent, Context(recurrent, sizes()) as context:
        with pytest.raises(EarlyExitUnavailable, match="running state"):
            open_early_exit(context)
        assert context.tokens == []


def test_layers_that_are_not_there_are_refused_with_a_sentence(target: Context) -> None:
    for layer in (-1, LAYERS + 1):
        with pytest.raises(EarlyExitUnavailable, match="can't exit after"):
            open_early_exit(target, exit_layer=layer)


def test_the_head_of_another_model_is_refused(target: Context, tmp_path: Path) -> None:
    other = write_model(tmp_path / "other.gguf", letters=[*"abcdefgh"])
    cut_head(OutputEnd(other), tmp_path / "head.gguf")
    with Head(tmp_path / "head.gguf", threads=1) as head, pytest.raises(EarlyExitUnavailable, match="not cut from"):
        EarlyExitDrafter(target, head, 2, lambda _token: False)


def test_a_head_is_cut_once_and_a_damaged_one_again(model: Model) -> None:
    choice = choose_exit(model)
    assert (choice.layer, choice.calibrated) == (2, False)
    made = choice.head.stat().st_mtime_ns
    assert choose_exit(model).head.stat().st_mtime_ns == made
    choice.head.write_bytes(choice.head.read_bytes()[:500])
    Head(choose_exit(model).head, threads=1).close()


@pytest.mark.demo
def test_on_the_demo_text_is_plain_text(demo: Path) -> None:
    with Model(demo) as model, Context(model, sizes(256, threads=2)) as context:
        chosen = frequent_tokens(model.vocab)
        assert chosen is not None
        assert all(end in chosen for end in (0, 2))
        prompt = model.vocab.tokenize(
            "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
            add_special=True,
            parse_special=True,
        )
        drafter = open_early_exit(context, exit_layer=27)
        assert 0 < drafter.extra_bytes < model.size_bytes / 2
        for params in (GREEDY, SamplingParams(temperature=0.8)):
            plain = written(context, NoDrafter(), prompt, sampler(params))
            assert written(context, drafter, prompt, sampler(params)) == plain
        drafter.close()
