"""Where a target can't show what a trained head reads, the answer is decoded plainly and the user is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.drafters.method import Method
from specchat.heads.convert import convert
from specchat.heads.kinds import WeightType
from specchat.llama import hidden
from specchat.llama.errors import DoesNotFit
from specchat.llama.library import library
from tests.engine.test_heads import DEPTH, GREEDY, PROMPTS, ask, opened
from tests.head_models import write_eagle_head
from tests.heads.checkpoints import medusa
from tests.tiny_model import write_model


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("states")
    tiny = write_model(directory / "tiny.gguf", layers=4)
    write_eagle_head(directory / "eagle.gguf", tiny, draft_vocab=100)
    convert(medusa().write(directory / "medusa"), directory / "medusa.gguf", target=tiny, weight_type=WeightType.F32)
    return directory


@pytest.mark.parametrize(("draft", "method"), [("eagle", Method.EAGLE), ("medusa", Method.MEDUSA)])
@pytest.mark.parametrize("depth", [DEPTH, None], ids=["fixed", "chosen"])
def test_a_target_that_can_not_show_its_states_decodes_plainly_and_says_so(
    files: Path, monkeypatch: pytest.MonkeyPatch, draft: str, method: Method, depth: int | None
) -> None:
    monkeypatch.setattr(hidden, "can_tap", lambda _: False)
    monkeypatch.setattr(library().api, "llama_model_n_embd_out", lambda _: 1)
    for asked in (method, Method.AUTO):
        engine, plain = opened(files, "tiny", draft, asked, depth), opened(files, "tiny", None, Method.NONE)
        (note,) = engine.take_notes()
        assert "the text is the same without" in note
        assert engine.target.params.layer_inputs == ()
        assert engine.draft_name is None
        answer = ask(engine, PROMPTS[0], GREEDY)
        assert answer.token_ids == ask(plain, PROMPTS[0], GREEDY).token_ids
        assert asked is Method.AUTO or answer.metrics.drafted == 0
        engine.close()
        plain.close()


@pytest.mark.parametrize(("draft", "method"), [("eagle", Method.EAGLE), ("medusa", Method.MEDUSA)])
def test_a_context_that_does_not_fit_is_refused_with_a_head_too(
    files: Path, monkeypatch: pytest.MonkeyPatch, draft: str, method: Method
) -> None:
    real, asked = library().api.llama_init_from_model, iter(range(100))
    # A context without what the head reads would fit; who asks for a head is told, and chooses.
    monkeypatch.setattr(library().api, "llama_init_from_model", lambda *given: real(*given) if next(asked) else None)
    with pytest.raises(DoesNotFit, match="--ctx"):
        opened(files, "tiny", draft, method)
