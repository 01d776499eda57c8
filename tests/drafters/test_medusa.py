"""Medusa heads draft from the target's newest state, as exactly as any other drafter."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specchat.drafters.base import NoDrafter
from specchat.drafters.medusa import MedusaDrafter, open_medusa
from specchat.engine.loop import Loop
from specchat.engine.stopping import StopRule, Unwatched
from specchat.heads.convert import convert
from specchat.heads.kinds import WeightType
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import ContextFull, DecodeFailed
from specchat.llama.final_state import FinalStateContext
from specchat.llama.head import OutputEnd
from specchat.llama.medusa import MedusaHeads, MedusaUnusable
from specchat.llama.model import Model
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.distribution import Distribution
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.heads.checkpoints import Published, medusa, medusa_logits
from tests.tiny_model import write_model

GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=0.8, repeat_penalty=1.2)
HEADS = 4


def sampler(params: SamplingParams = WARM, seed: int = 5, mode: AcceptanceMode = AcceptanceMode.COUPLED) -> Sampler:
    return Sampler(params, acceptance_rule(mode, seed))


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinalStateContext]:
    path = write_model(tmp_path_factory.mktemp("medusa") / "four.gguf", layers=4, seed=3, spread=0.3)
    with Model(path) as model, FinalStateContext(model, ContextParams(64, 8, 1, n_batch=64)) as context:
        yield context


@pytest.fixture(scope="module")
def published() -> Published:
    return medusa(heads=HEADS, seed=2)


@pytest.fixture(scope="module")
def heads(published: Published, target: FinalStateContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heads")
    return convert(
        published.write(folder / "heads"), folder / "heads.gguf", target=target.model.path, weight_type=WeightType.F32
    ).path


@pytest.fixture
def drafter(target: FinalStateContext, heads: Path) -> Iterator[MedusaDrafter]:
    target.clear()
    drafter = open_medusa(target, heads)
    yield drafter
    drafter.close()


def read(target: FinalStateContext, ids: Sequence[int]) -> None:
    """Bring the target where the loop leaves it before a step: all read but the last, that one's state known."""
    target.clear()
    target.prefill(ids[:-2])
    target.decode(ids[-2:-1])


def test_each_head_guesses_the_token_after_those_of_the_heads_before_it(
    target: FinalStateContext, drafter: MedusaDrafter, published: Published
) -> None:
    prompt = [270, 281, 262, 279, 5]
    read(target, prompt)
    state = target.final_state()
    assert state is not None
    drafter.begin(prompt, sampler(GREEDY))
    expected = [int(medusa_logits(published, head, state).argmax()) for head in range(HEADS)]
    assert 2 not in expected
    assert list(drafter.propose(9).ids) == expected
    assert list(drafter.propose(2).ids) == expected[:2]


def test_the_state_is_what_the_targets_output_matrix_reads(target: FinalStateContext) -> None:
    end = OutputEnd(target.model.path)
    weights = end.weights(np.arange(end.n_tokens))
    target.clear()
    target.prefill([270, 281, 262])
    assert target.final_state() is None
    logits = target.decode([279, 5, 6]).copy()
    for kept in (6, 5, 4):
        target.truncate(kept)
        state = target.final_state()
        assert state is not None
        np.testing.assert_allclose(weights @ state, logits[kept - 4], atol=1e-4)
    target.truncate(3)
    assert target.final_state() is None


def test_reading_states_changes_no_logits(target: FinalStateContext) -> None:
    from specchat.llama.context import Context

    with Context(target.model, target.params) as plain:
        target.clear()
        for context in (plain, target):
            context.prefill([270, 281, 262])
        for tokens in ([279], [5, 6, 7], [8]):
            np.testing.assert_array_equal(target.decode(tokens), plain.decode(tokens))


def test_a_long_prompt_is_read_without_a_row_of_output_a_token(target: FinalStateContext) -> None:
    # More rows than the context may put out: llama.cpp would end the process.
    target.clear()
    target.decode([270])
    target.prefill([270 + i % 9 for i in range(60)])
    assert len(target.decode([5], outputs=1)) == 1


def test_a_pass_that_fails_leaves_no_state_behind(target: FinalStateContext) -> None:
    target.clear()
    target.decode([270, 271])
    with pytest.raises(ContextFull):
        target.decode([5] * 8 + [6] * 56, outputs=8)
    assert target.tokens == [270, 271]
    assert target.final_state() is None


def written(
    target: FinalStateContext, drafter: MedusaDrafter | NoDrafter, prompt: Sequence[int], sampler: Sampler
) -> tuple[list[int], int]:
    """The answer's ids as the loop writes it, and how many were drafted."""
    target.clear()
    target.prefill(prompt[:-1])
    stop = StopRule(target.model.vocab.is_end_of_generation, 40, Unwatched())
    loop = Loop(target, drafter, sampler, depth=5, stop=stop)
    tokens = [token for step in loop.run(prompt) for token in step.tokens]
    assert target.tokens == loop.history[:-1]
    return tokens, loop.metrics.drafted


@pytest.mark.parametrize("params", [GREEDY, WARM])
def test_the_text_is_that_of_plain_decoding(
    target: FinalStateContext, drafter: MedusaDrafter, params: SamplingParams
) -> None:
    drafted = 0
    for seed in range(4):
        prompt = [270 + seed, 281, 262, 279]
        plain, _ = written(target, NoDrafter(), prompt, sampler(params, seed))
        text, n = written(target, drafter, prompt, sampler(params, seed))
        assert text == plain
        drafted += n
    assert drafted > 60


class OwnHeads:
    """Heads that guess the target's next tokens rightly up to a depth, as far as they are known beforehand."""

    def __init__(self, target: FinalStateContext, text: Sequence[int]) -> None:
        self.n_heads, self.n_tokens, self.size_bytes = HEADS, target.model.vocab.size, 0
        self.token_ids: np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None = None
        self.right = 0
        self._target = target
        self._text = text

    def see(self, state: object) -> None:
        self._next = len(self._target.tokens) + 1

    def logits(self, head: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        row = np.zeros(self.n_tokens, dtype=np.float32)
        place = self._next + head
        token = self._text[place] if place < len(self._text) else 0
        row[token if head < self.right else (token + 1) % self.n_tokens] = 9
        return row

    def close(self) -> None:
        pass


def test_the_text_is_the_same_whatever_depth_the_heads_are_right_to(target: FinalStateContext) -> None:
    prompt = [270, 281, 262, 279]
    plain, _ = written(target, NoDrafter(), prompt, sampler(GREEDY))
    heads = OwnHeads(target, prompt + plain)
    depths = []
    for right in range(HEADS + 1):
        heads.right = right
        target.clear()
        target.prefill(prompt[:-1])
        drafter = MedusaDrafter(target, heads, lambda _token: False)
        stop = StopRule(target.model.vocab.is_end_of_generation, len(plain), Unwatched())
        loop = Loop(target, drafter, sampler(GREEDY), depth=HEADS, stop=stop)
        steps = list(loop.run(prompt))
        assert [token for step in steps for token in step.tokens] == plain
        depths.append(max(step.accepted for step in steps))
    assert depths == list(range(HEADS + 1))


def test_at_a_temperature_the_drafts_come_from_the_distributions_handed_out(
    target: FinalStateContext, drafter: MedusaDrafter, published: Published
) -> None:
    prompt = [270, 281, 262, 279, 5]
    read(target, prompt)
    state = target.final_state()
    assert state is not None
    state = state.copy()
    counts = np.zeros((2, 286))
    for seed in range(400):
        drafter.begin(prompt, sampler(SamplingParams(1, 0, 1, 0), seed, AcceptanceMode.EXACT))
        draft = drafter.propose(2)
        assert draft.distributions is not None
        for head, (token, q) in enumerate(zip(draft.ids, draft.distributions, strict=True)):
            logits = medusa_logits(published, head, state)
            probs = np.exp(logits - logits.max())
            assert q.prob(token) == pytest.approx(probs[token] / probs.sum(), rel=1e-3)
            counts[head, token] += 1
    for head in range(2):
        expected = medusa_logits(published, head, state)
        expected = np.exp(expected - expected.max())
        expected /= expected.sum()
        likely = int(expected.argmax())
        spread = np.sqrt(counts[head].sum() * expected[likely] * (1 - expected[likely]))
        assert abs(counts[head, likely] - counts[head].sum() * expected[likely]) < 4 * spread


@given(seed=st.integers(0, 10_000), length=st.integers(2, 20))
@settings(max_examples=40, deadline=None)
def test_after_any_history_it_proposes_as_a_fresh_one(
    target: FinalStateContext, heads: Path, seed: int, length: int
) -> None:
    chance = random.Random(seed)
    drafter, vocabulary = open_medusa(target, heads), target.model.vocab.size
    ids = [chance.randrange(vocabulary) for _ in range(length)]
    read(target, ids)
    drafter.begin(ids, sampler())
    for _ in range(chance.randrange(1, 6)):
        if chance.random() < 0.3:
            ids = ids[: chance.randrange(2, len(ids) + 1)]
            ids += [chance.randrange(vocabulary) for _ in range(chance.randrange(0, 4))]
            read(target, ids)
            drafter.begin(ids, sampler())
        limit = chance.randrange(0, 6)
        draft = drafter.propose(limit)
        assert target.tokens == ids[:-1]
        accepted = chance.randrange(0, len(draft.ids) + 1)
        # The loop's own pass, which leaves the state of the last accepted token.
        target.decode([ids[-1], *draft.ids])
        target.truncate(len(ids) + accepted)
        own = chance.randrange(vocabulary)
        step = Step((*draft.ids[:accepted], own), accepted, min(accepted + 1, len(draft.ids)), len(draft.ids))
        drafter.commit(step)
        ids = [*ids, *step.tokens]
        if len(ids) > 50:
            break
        after = drafter.propose(3)
        same(after, fresh(target, heads, ids, 3))
        assert len(after) > 0
    drafter.close()


def fresh(target: FinalStateContext, heads: Path, ids: Sequence[int], limit: int) -> Draft:
    drafter = open_medusa(target, heads)
    drafter.begin(ids, sampler())
    held, state = list(target.tokens), target.final_state()
    assert held == list(ids[:-1])
    assert state is not None
    draft = drafter.propose(limit)
    drafter.close()
    return draft


def same(one: Draft, other: Draft) -> None:
    def told(distributions: Sequence[Distribution] | None) -> list[tuple[object, object]]:
        return [(q.ids if q.ids is None else q.ids.tolist(), q.probs.tolist()) for q in distributions or ()]

    assert list(one.ids) == list(other.ids)
    assert told(one.distributions) == told(other.distributions)


def test_without_the_newest_state_nothing_is_drafted_until_a_step_brings_it(
    target: FinalStateContext, drafter: MedusaDrafter
) -> None:
    target.prefill([270, 271, 272])
    drafter.begin([270, 271, 272, 273], sampler())
    assert len(drafter.propose(3)) == 0
    target.decode([273])
    drafter.commit(Step((5,), 0, 0, 0))
    assert len(drafter.propose(3)) == 3


def test_a_cache_that_holds_something_else_is_not_drafted_from(
    target: FinalStateContext, drafter: MedusaDrafter
) -> None:
    target.decode([270, 271, 272])
    for ids in ([270, 271, 279, 280], [270, 271, 272], [270], [270, 271, 272, 273, 274]):
        drafter.begin(ids, sampler())
        assert len(drafter.propose(3)) == 0
    drafter.begin([270, 271, 272, 273], sampler())
    assert len(drafter.propose(3)) == 3


def test_drafting_stops_where_the_context_does(target: FinalStateContext, drafter: MedusaDrafter) -> None:
    ids = [270 + i % 9 for i in range(target.n_ctx - 2)]
    read(target, ids)
    drafter.begin(ids, sampler())
    assert len(drafter.propose(5)) == 2


def test_drafting_stops_at_the_end_of_an_answer(target: FinalStateContext, heads: Path) -> None:
    read(target, [270, 271, 272])
    native = MedusaHeads(heads, threads=1)
    drafter = MedusaDrafter(target, native, lambda _token: True)
    drafter.begin([270, 271, 272], sampler())
    assert len(drafter.propose(4)) == 1
    drafter.close()


def test_heads_of_some_tokens_draft_only_those(target: FinalStateContext, published: Published, tmp_path: Path) -> None:
    path = convert(
        published.write(tmp_path / "heads"), tmp_path / "some.gguf", target=target.model.path, draft_tokens=20
    ).path
    drafter = open_medusa(target, path)
    prompt = [270, 281, 262, 279]
    for params in (SamplingParams(1, 0, 1, 0), WARM, GREEDY):
        read(target, prompt)
        drafter.begin(prompt, sampler(params))
        draft = drafter.propose(4)
        assert draft.distributions is not None
        for token, q in zip(draft.ids, draft.distributions, strict=True):
            assert token < 20
            assert q.prob(token) > 0
            assert sum(q.prob(i) for i in range(20)) == pytest.approx(1, abs=1e-5)
        assert (
            written(target, drafter, prompt, sampler(params))[0]
            == written(target, NoDrafter(), prompt, sampler(params))[0]
        )
    drafter.close()


@pytest.mark.parametrize("path", [[0], [0, 1], [0, 2], [0, 2, 4], [0, 3, 5]])
def test_after_a_tree_the_heads_read_the_state_at_the_end_of_the_path_that_was_kept(
    target: FinalStateContext, path: list[int]
) -> None:
    tokens, parents = [20, 21, 22, 23, 24, 25], [-1, 0, 0, 0, 2, 3]
    with FinalStateContext(target.model, ContextParams(64, 8, 1, n_batch=64, n_seq_max=4)) as branching:
        read(branching, [9, 10, 11, 12])
        branching.decode_tree(tokens, parents)
        assert branching.final_state() is None, "no path was kept yet"
        branching.keep_path(path)
        found = branching.final_state()
    read(target, [9, 10, 11, 12])
    target.decode([tokens[row] for row in path])
    expected = target.final_state()
    assert found is not None
    assert expected is not None
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_heads_that_fail_draft_nothing_more_and_the_user_is_told_once(
    target: FinalStateContext, drafter: MedusaDrafter, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = [270, 271, 272, 273]
    read(target, prompt)
    drafter.begin(prompt, sampler())
    whole = list(drafter.propose(3).ids)
    logits = MedusaHeads.logits

    def failing(heads: MedusaHeads, head: int) -> object:
        if head == 1:
            raise DecodeFailed("status 2. See its log.")
        return logits(heads, head)

    with monkeypatch.context() as patch:
        patch.setattr(MedusaHeads, "logits", failing)
        assert len(drafter.propose(3)) == 0
    assert len(drafter.propose(3)) == 0
    assert drafter.note is not None
    assert "(status 2. See its log)" in drafter.note
    assert "the same without them" in drafter.note
    # What was drafted before the failure is not among the ids.
    drafter.note = None
    assert list(drafter.propose(3).ids) == whole


@pytest.mark.parametrize(("sizes", "sentence"), [({"width": 64}, "of width 64"), ({"tokens": 300}, "of 300 tokens")])
def test_heads_of_another_model_are_refused_with_a_sentence(
    target: FinalStateContext, tmp_path: Path, sizes: dict[str, int], sentence: str
) -> None:
    path = convert(medusa(**sizes).write(tmp_path / "heads"), tmp_path / "heads.gguf").path  # type: ignore[arg-type]
    with pytest.raises(MedusaUnusable, match=sentence):
        open_medusa(target, path)
