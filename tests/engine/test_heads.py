"""With a trained head the text is that of plain decoding, however many of its drafts are right, and after any edit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.drafters.auto import AutoDrafter
from specchat.drafters.base import NoDrafter
from specchat.drafters.heads.drafter import HeadDrafter
from specchat.drafters.heads.pairing import HeadMismatch
from specchat.drafters.method import Method
from specchat.engine import drafting
from specchat.engine.answer import Answer
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from specchat.heads.convert import convert
from specchat.heads.kinds import WeightType
from specchat.llama.errors import DecodeFailed
from specchat.llama.hidden import HiddenStatesMissing
from specchat.speculation.distribution import Distribution
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step
from tests.assistant_models import write_assistant, write_gemma4
from tests.chained_models import write_chained_model
from tests.dflash_models import write_dflash_head
from tests.head_models import write_eagle_head, write_hybrid_model, write_nextn_sidecar
from tests.heads.checkpoints import medusa
from tests.tiny_model import write_model

DEPTH = 5
GREEDY = AnswerSettings(SamplingParams(temperature=0), max_tokens=40)
SEEDED = AnswerSettings(SamplingParams(temperature=0.9), AcceptanceMode.COUPLED, seed=3, max_tokens=40)
UNCUT = AnswerSettings(
    SamplingParams(temperature=1, top_k=0, top_p=1, min_p=0), AcceptanceMode.COUPLED, seed=4, max_tokens=40
)
PROMPTS = [[1, *(10 + (7 * i * (n + 1)) % 200 for i in range(12 + 25 * n))] for n in range(3)]
PAIRS = {
    "eagle": ("tiny", "eagle", Method.EAGLE),
    "eagle, all shared": ("tiny", "shared", Method.EAGLE),
    "p-eagle": ("tiny", "parallel", Method.P_EAGLE),
    "dflash": ("tiny", "dflash", Method.DFLASH),
    "dflash, of a hybrid": ("hybrid", "hybrid-dflash", Method.DFLASH),
    "assistant": ("gemma4", "assistant", Method.MTP),
    "mtp in the target": ("hybrid", None, Method.MTP),
    "mtp beside the target": ("hybrid", "sidecar", Method.MTP),
    "several in turn": ("chained", None, Method.MTP),
    "several in turn, beside the target": ("chained", "chained-sidecar", Method.MTP),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("heads")
    tiny = write_model(directory / "tiny.gguf", layers=4)
    write_eagle_head(directory / "eagle.gguf", tiny, draft_vocab=100)
    write_eagle_head(directory / "shared.gguf", tiny, own_output=False)
    write_eagle_head(directory / "parallel.gguf", tiny, draft_vocab=100, mask_token=2)
    convert(medusa().write(directory / "medusa"), directory / "medusa.gguf", target=tiny, weight_type=WeightType.F32)
    write_gemma4(directory / "gemma4.gguf")
    write_assistant(directory / "assistant.gguf")
    hybrid = write_hybrid_model(directory / "hybrid.gguf")
    write_dflash_head(directory / "dflash.gguf", tiny, draft_vocab=100)
    # Its target counts positions in several ways, as the targets of published heads do.
    write_dflash_head(directory / "hybrid-dflash.gguf", hybrid, own_output=False, sections=(8, 0, 0, 0))
    write_chained_model(directory / "chained.gguf")
    write_chained_model(directory / "chained-sidecar.gguf", trunk=False)
    write_nextn_sidecar(directory / "sidecar.gguf")
    return directory


def opened(files: Path, target: str, draft: str | None, method: Method, k: int | None = DEPTH) -> Engine:
    return Engine(
        EngineSettings(
            files / f"{target}.gguf",
            None if draft is None else files / f"{draft}.gguf",
            method,
            draft_tokens=k,
            context=256,
            threads=1,
            costs=files / "costs",
        )
    )


def ask(engine: Engine, prompt: Sequence[int], settings: AnswerSettings) -> Answer:
    answer = engine.answer(prompt, settings)
    for _ in answer:
        pass
    return answer


@dataclass
class Pair:
    """An engine with a head, and one of the same target that decodes plainly."""

    engine: Engine
    plain: Engine

    @property
    def head(self) -> HeadDrafter:
        assert isinstance(self.engine.drafter, HeadDrafter)
        return self.engine.drafter


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, files: Path) -> Iterator[Pair]:
    target, draft, method = PAIRS[request.param]
    both = Pair(opened(files, target, draft, method), opened(files, target, None, Method.NONE))
    yield both
    both.engine.close()
    both.plain.close()


@pytest.mark.parametrize("settings", [GREEDY, SEEDED, UNCUT], ids=["greedy", "seeded", "seeded, uncut"])
def test_free_drafts_leave_the_text_as_it_is(pair: Pair, settings: AnswerSettings) -> None:
    for prompt in PROMPTS:
        answer = ask(pair.engine, prompt, settings)
        assert answer.token_ids == ask(pair.plain, prompt, settings).token_ids
        assert answer.metrics.drafted > 0
    assert pair.engine.take_notes() == []


@pytest.mark.parametrize("method", [Method.MEDUSA, Method.AUTO])
def test_medusa_heads_leave_the_text_as_it_is(files: Path, method: Method) -> None:
    engine = opened(files, "tiny", "medusa", method, 3 if method is Method.MEDUSA else None)
    plain = opened(files, "tiny", None, Method.NONE)
    assert "medusa" in engine.drafts_with
    for prompt in PROMPTS:
        for settings in (GREEDY, SEEDED):
            answer = ask(engine, prompt, settings)
            assert answer.token_ids == ask(plain, prompt, settings).token_ids
            assert answer.metrics.drafted > 0 or method is Method.AUTO
    engine.close()
    plain.close()


class Forcing:
    """A head whose passes are real and whose drafts are right 0, 1, … DEPTH tokens deep in turn."""

    def __init__(self, head: HeadDrafter, right_text: Sequence[int]) -> None:
        self.method = head.method
        self._head, self._text = head, right_text
        self._steps = self._start = self._right = 0

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        self._inner, self._start = sampler, len(ids)
        self._head.begin(ids, self)  # type: ignore[arg-type]

    @property
    def params(self) -> SamplingParams:
        return self._inner.params

    def distribution(self, logits: NDArray[np.float32], history: Sequence[int]) -> Distribution:
        return self._inner.distribution(logits, history)

    def draw(self, _: Distribution, position: int) -> int:
        right = self._text[position] if position < len(self._text) else 9
        return right if position - self._start < self._right else (right + 1) % 250 + 3

    def propose(self, limit: int) -> Draft:
        self._right, self._steps = self._steps % (DEPTH + 1), self._steps + 1
        return Draft(self._head.propose(limit).ids, None)

    def commit(self, step: Step) -> None:
        self._start += len(step.tokens)
        self._head.commit(step)

    def keeps(self, ids: Sequence[int]) -> int:
        return self._head.keeps(ids)

    def close(self) -> None:
        self._head.close()


@pytest.mark.parametrize("settings", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_drafts_right_to_any_depth_leave_the_text_as_it_is(pair: Pair, settings: AnswerSettings) -> None:
    head = pair.head
    for prompt in PROMPTS:
        expected = ask(pair.plain, prompt, settings).token_ids
        pair.engine.drafter = Forcing(head, [*prompt, *expected])
        answer = ask(pair.engine, prompt, settings)
        assert answer.token_ids == expected
        assert answer.metrics.accepted > 20
    assert head.note is None


def test_a_conversation_with_edits_reads_as_plainly_decoded(pair: Pair) -> None:
    head, talk = pair.head, list(PROMPTS[1])
    for turn in range(5):
        if turn == 2:
            talk = [*talk[: len(talk) // 2], 44, 45, 46]
        elif turn == 3:
            # Answered plainly in the same engine: the head must follow what it was not told of.
            talk += ask(pair.engine, talk, AnswerSettings(GREEDY.sampling, max_tokens=9, speculate=False)).token_ids
        expected = ask(pair.plain, talk, GREEDY).token_ids
        pair.engine.drafter = Forcing(head, [*talk, *expected])
        answer = ask(pair.engine, talk, GREEDY)
        assert answer.token_ids == expected
        assert answer.metrics.accepted > 20
        talk += [*expected, 60 + turn, 61, 62]
    assert head.note is None


class StopAfter:
    """Ends an answer within a step, keeping none of it: a stop string that began before."""

    def __init__(self, n: int) -> None:
        self._left = n

    def take(self, tokens: Sequence[int]) -> int | None:
        self._left -= 1
        return 0 if self._left < 0 else None


def test_an_answer_cut_back_behind_its_last_pass_goes_on_as_plainly_decoded(pair: Pair) -> None:
    for steps in range(1, 6):
        prompt = PROMPTS[0]
        answer = pair.engine.answer(prompt, GREEDY, watcher=StopAfter(steps))
        for _ in answer:
            pass
        talk = answer.transcript
        assert pair.engine.target.tokens == talk[: len(pair.engine.target.tokens)]
        assert ask(pair.engine, talk, GREEDY).token_ids == ask(pair.plain, talk, GREEDY).token_ids


def test_a_head_that_fails_is_said_once_and_the_answer_goes_on(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = ask(pair.plain, PROMPTS[0], GREEDY).token_ids
    passes = iter(range(100))
    real = pair.head._head.encode

    def encode(features: NDArray[np.float32]) -> NDArray[np.float32]:
        if next(passes) == 7:
            raise DecodeFailed("llama.cpp could not compute a draft (status -3). See its log.")
        return real(features)

    monkeypatch.setattr(pair.head._head, "encode", encode)
    assert ask(pair.engine, PROMPTS[0], GREEDY).token_ids == expected
    (note,) = pair.engine.take_notes()
    assert "status -3" in note
    assert ask(pair.engine, PROMPTS[0], GREEDY).token_ids == expected
    assert pair.engine.take_notes() == []


def test_a_build_that_hands_out_no_states_decodes_plainly_and_says_so(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise HiddenStatesMissing("This build of llama.cpp has no such function, so the answer is decoded plainly.")

    monkeypatch.setattr(drafting, "hidden_functions", missing)
    engine = opened(files, "tiny", "eagle", Method.EAGLE)
    assert engine.take_notes() == ["This build of llama.cpp has no such function, so the answer is decoded plainly."]
    assert engine.method is Method.NONE
    assert ask(engine, PROMPTS[0], GREEDY).metrics.drafted == 0
    engine.close()


@pytest.mark.parametrize(
    ("target", "draft", "method", "arm"),
    [
        ("tiny", "eagle", Method.AUTO, "eagle"),
        ("tiny", "eagle", Method.EAGLE, "eagle"),
        ("tiny", "parallel", Method.AUTO, "p-eagle"),
        ("tiny", "dflash", Method.AUTO, "dflash"),
        ("tiny", "dflash", Method.DFLASH, "dflash"),
        ("chained", None, Method.AUTO, "mtp"),
        ("gemma4", "assistant", Method.AUTO, "mtp"),
        ("hybrid", None, Method.AUTO, "mtp"),
        ("hybrid", "sidecar", Method.AUTO, "mtp"),
        ("hybrid", None, Method.MTP, "mtp"),
    ],
)
def test_a_head_is_an_arm_whose_depth_is_chosen(
    files: Path, target: str, draft: str | None, method: Method, arm: str
) -> None:
    engine = opened(files, target, draft, method, None)
    plain = opened(files, target, None, Method.NONE)
    assert isinstance(engine.drafter, AutoDrafter)
    assert engine.method is method
    assert arm in engine.drafts_with
    for prompt in PROMPTS:
        assert ask(engine, prompt, SEEDED).token_ids == ask(plain, prompt, SEEDED).token_ids
    engine.close()
    plain.close()


class Eager(NoDrafter):
    """Drafts as much as it may, all of it wrong."""

    method = Method.SUFFIX

    def propose(self, limit: int) -> Draft:
        return Draft([3] * limit)


def test_a_running_state_is_never_asked_to_take_back_more_than_it_can(files: Path) -> None:
    engine, plain = opened(files, "hybrid", None, Method.SUFFIX, 20), opened(files, "hybrid", None, Method.NONE)
    engine.drafter = Eager()
    assert engine.target.most_taken_back == 8
    answer = ask(engine, PROMPTS[0], SEEDED)
    assert answer.token_ids == ask(plain, PROMPTS[0], SEEDED).token_ids
    assert answer.metrics.drafted > 7 * (answer.metrics.steps - 8)
    engine.close()
    plain.close()


def test_without_a_head_to_draft_with_the_engine_says_what_is_missing(files: Path) -> None:
    with pytest.raises(HeadMismatch, match="--draft"):
        opened(files, "tiny", None, Method.EAGLE)
    with pytest.raises(HeadMismatch, match="not trained to draft in parallel"):
        opened(files, "tiny", "eagle", Method.P_EAGLE)
    with pytest.raises(HeadMismatch, match="DFlash head needs"):
        opened(files, "tiny", None, Method.DFLASH)
    with pytest.raises(HeadMismatch, match="no DFlash head"):
        opened(files, "tiny", "eagle", Method.DFLASH)
    with pytest.raises(HeadMismatch, match="states of 32 numbers and the model has 64"):
        opened(files, "hybrid", "dflash", Method.AUTO)
    with pytest.raises(HeadMismatch, match="Medusa heads needs"):
        opened(files, "tiny", None, Method.MEDUSA)
    with pytest.raises(HeadMismatch, match="no NextN layer"):
        opened(files, "tiny", None, Method.MTP)
    with pytest.raises(HeadMismatch, match="no EAGLE-3 head"):
        opened(files, "tiny", "hybrid", Method.EAGLE)
    with pytest.raises(HeadMismatch, match="'llama'"):
        opened(files, "tiny", "sidecar", Method.AUTO)


def test_depth_zero_opens_no_head(files: Path) -> None:
    engine = opened(files, "tiny", "eagle", Method.EAGLE, 0)
    assert isinstance(engine.drafter, NoDrafter)
    assert engine.target.params.layer_inputs == ()
    engine.close()
