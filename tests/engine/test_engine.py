"""What an engine refuses, and what it says when it can't do as asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.drafters.base import Method
from specchat.engine.engine import Engine, PromptTooLong, VocabularyMismatch
from specchat.engine.settings import AnswerSettings, EngineSettings, SettingsError
from specchat.llama.context import Context
from specchat.llama.errors import LlamaError
from tests.tiny_model import LETTERS, write_model


def test_a_draft_of_another_vocabulary_is_refused_by_the_first_token_that_differs(tiny: Path, tmp_path: Path) -> None:
    letters = [*LETTERS[:4], "É", *LETTERS[5:]]
    other = write_model(tmp_path / "other.gguf", letters=letters)
    with pytest.raises(VocabularyMismatch, match=r"token 264 is 'e' in the target and 'É' in the draft"):
        Engine(EngineSettings(tiny, other, Method.DRAFT, context=64))


def test_a_padded_vocabulary_still_drafts(tiny: Path, tmp_path: Path) -> None:
    padded = write_model(tmp_path / "padded.gguf", letters=[*LETTERS, "<pad0>", "<pad1>"])
    for target, draft in ((tiny, padded), (padded, tiny)):
        engine = Engine(EngineSettings(target, draft, Method.DRAFT, context=128))
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


def test_drafting_without_a_draft_is_refused(tiny: Path) -> None:
    with pytest.raises(LlamaError, match="--draft"):
        Engine(EngineSettings(tiny, method=Method.DRAFT, context=64))


@pytest.mark.parametrize(("name", "value"), [("draft_tokens", -1), ("draft_tokens", 10_000), ("context", 3)])
def test_settings_out_of_range_are_named(tiny: Path, name: str, value: int) -> None:
    with pytest.raises(SettingsError, match=r"must lie between"):
        EngineSettings(tiny, **{name: value})  # type: ignore[arg-type]


def test_a_model_that_can_not_roll_back_decodes_plainly_and_says_so(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "rolls_back", lambda _self: False)
    engine = Engine(EngineSettings(tiny, tiny, Method.DRAFT, context=64))
    assert engine.method is Method.NONE
    assert "decodes plainly" in engine.notes[0]
    steps = list(engine.answer([1, 262], AnswerSettings(max_tokens=8)))
    assert all(step.drafted == 0 for step in steps)
    engine.close()
