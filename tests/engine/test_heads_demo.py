"""On the demo with a random EAGLE-3 head the text is that of plain decoding, with free drafts and with right ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.drafters.heads.drafter import HeadDrafter
from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from tests.engine.test_heads import DEPTH, Forcing, ask
from tests.head_models import write_eagle_head

QUESTIONS = (
    "List ten tips for better sleep.",
    "What is the capital of France?",
    "Write a haiku about rain.",
    "Why do leaves turn red?",
    "Explain what a queue is, with an example in Python.",
    "Repeat this word for word: the old lamp stood by the old door.",
)
TOKENS = 12
GREEDY = AnswerSettings(SamplingParams(temperature=0), max_tokens=TOKENS)
SEEDED = AnswerSettings(SamplingParams(temperature=0.8), AcceptanceMode.COUPLED, seed=7, max_tokens=TOKENS)

pytestmark = pytest.mark.demo


@pytest.fixture(scope="module")
def engines(demo: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Engine, Engine]]:
    folder = tmp_path_factory.mktemp("heads")
    head = write_eagle_head(folder / "head.gguf", demo, draft_vocab=8192)
    plain = Engine(EngineSettings(demo, context=256, costs=folder))
    drafting = Engine(EngineSettings(demo, head, Method.EAGLE, draft_tokens=DEPTH, context=256, costs=folder))
    yield plain, drafting
    plain.close()
    drafting.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_text_is_that_of_plain_decoding(engines: tuple[Engine, Engine], question: str) -> None:
    plain, drafting = engines
    text = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    prompt = plain.vocab.tokenize(text, add_special=False, parse_special=True)
    head = drafting.drafter
    assert isinstance(head, HeadDrafter)
    for settings in (GREEDY, SEEDED):
        expected = ask(plain, prompt, settings).token_ids
        answer = ask(drafting, prompt, settings)
        assert answer.token_ids == expected
        assert answer.metrics.drafted > 0
        drafting.drafter = Forcing(head, [*prompt, *expected])
        forced = ask(drafting, prompt, settings)
        drafting.drafter = head
        assert forced.token_ids == expected
        assert forced.metrics.accepted > 0 or len(expected) < 4
    assert drafting.take_notes() == []
