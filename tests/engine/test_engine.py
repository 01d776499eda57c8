"""What an engine refuses, and what it says when it can't do as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.drafters.method import Method
from specchat.engine.engine import Engine, PromptTooLong, VocabularyMismatch
from specchat.engine.settings import AnswerSettings, EngineSettings, SettingsError
from specchat.llama.errors import LlamaError
from specchat.speculation.params import SamplingParams
from tests.tiny_model import LETTERS, write_model, write_recurrent_model

GREEDY = SamplingParams(temperature=0, logit_bias={2: float("-inf")})


def test_a_draft_of_another_vocabulary_is_refused_by_the_first_token_that_differs(tiny: Path, tmp_path: Path) -> None:
    letters = [*LETTERS[:4], "É", *LETTERS[5:]]
    other = write_model(tmp_path / "other.gguf", letters=letters)
    with pytest.raises(VocabularyMismatch, match=r"token 264 is 'e' in the target and 'É' in the draft"):
        Engine(EngineSettings(tiny, other, Method.DRAFT, context=64))


def test_a_padded_vocabulary_still_drafts(tiny: Path, tmp_path: Path) -> None:
    padded = write_model(tmp_path / "padded.gguf", letters=[*LETTERS, "<pad0>", "<pad1>"])
    for target, draft in ((tiny, padded), (padded, tiny)):
        engine = Engine(EngineSettings(target, draft, Method.DRAFT, draft_tokens=3, context=128))
        answer = engine.answer([1, 262, 263], AnswerSettings(max_tokens=30))
        steps = list(answer)
        assert sum(step.drafted for step in steps) > 0
        engine.close()


def test_a_much_larger_vocabulary_is_refused(tiny: Path, tmp_path: Path) -> None:
    other = write_model(tmp_path / "large.gguf", letters=[*LETTERS, *(f"x{i}" for i in range(200))])
    with pytest.raises(VocabularyMismatch, match="tokens"):
        Engine(EngineSettings(tiny, other, Method.DRAFT, context=64))


def test_a_prompt_that_fills_the_context_is_refused(tiny: Path) -> None:
    engine = Engine(EngineSettings(tiny, context=64))
    with pytest.raises(PromptTooLong, match="64"):
        engine.answer([5] * engine.target.n_ctx, AnswerSettings())
    engine.close()


def test_a_bias_for_a_token_that_does_not_exist_is_refused(tiny: Path) -> None:
    engine = Engine(EngineSettings(tiny, context=64))
    beyond = SamplingParams(logit_bias={engine.vocab.size: 1.0})
    with pytest.raises(SettingsError, match=r"--logit-bias names token"):
        engine.answer([1, 262], AnswerSettings(beyond))
    engine.close()


def test_drafting_without_a_draft_is_refused(tiny: Path) -> None:
    with pytest.raises(LlamaError, match="--draft"):
        Engine(EngineSettings(tiny, method=Method.DRAFT, context=64))


@pytest.mark.parametrize(("name", "value"), [("draft_tokens", -1), ("draft_tokens", 10_000), ("context", 3)])
def test_settings_out_of_range_are_named(tiny: Path, name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=r"must lie between"):
        EngineSettings(tiny, **{name: value})  # type: ignore[arg-type]


def test_a_recurrent_model_decodes_plainly_and_says_so(tiny: Path, tmp_path: Path) -> None:
    recurrent = write_recurrent_model(tmp_path / "mamba.gguf")
    engine = Engine(EngineSettings(recurrent, tiny, Method.DRAFT, context=64))
    assert engine.method is Method.NONE
    assert "decodes plainly" in engine.take_notes()[0]
    first = [step.tokens for step in engine.answer([1, 262, 263], AnswerSettings(GREEDY, max_tokens=12))]
    again = [step.tokens for step in engine.answer([1, 262, 263], AnswerSettings(GREEDY, max_tokens=12))]
    assert first == again
    assert len(first) == 12
    engine.close()


def test_a_recurrent_draft_is_left_out_with_a_note(tiny: Path, tmp_path: Path) -> None:
    engine = Engine(EngineSettings(tiny, write_recurrent_model(tmp_path / "mamba.gguf"), Method.DRAFT, context=64))
    assert engine.method is Method.NONE
    assert "can't take back rejected tokens" in engine.take_notes()[0]
    assert sum(len(step.tokens) for step in engine.answer([1, 262], AnswerSettings(GREEDY, max_tokens=8))) == 8
    engine.close()


def test_one_answer_can_be_decoded_plainly_and_drafting_is_right_again_after_it(tiny: Path, tmp_path: Path) -> None:
    draft = write_model(tmp_path / "draft.gguf", seed=0, spread=0.59)
    settings = EngineSettings(tiny, draft, Method.DRAFT, draft_tokens=3, context=256)
    drafting, plain = AnswerSettings(GREEDY, max_tokens=24), AnswerSettings(GREEDY, max_tokens=24, speculate=False)
    engine, fresh = Engine(settings), Engine(settings)
    prompt = [1, 262, 263, 264]
    first = [token for step in engine.answer(prompt, drafting) for token in step.tokens]
    longer = [*prompt, *first, 265]
    answer = engine.answer(longer, plain)
    steps = list(answer)
    assert all(step.drafted == 0 and len(step.tokens) == 1 for step in steps)
    assert answer.timings.reused_tokens >= len(prompt) + len(first) - 1
    longest = [*answer.transcript, 266]
    for engine_then in (engine, fresh):
        # The first steps of an answer may be plain, to be measured; from then on both must propose the same.
        list(engine_then.answer(longest, drafting))
    assert list(engine.answer(longest, drafting)) == list(fresh.answer(longest, drafting))
    again = [token for step in engine.answer(longer, drafting) for token in step.tokens]
    assert again == [token for step in steps for token in step.tokens]
    engine.close()
    fresh.close()
