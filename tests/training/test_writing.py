from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from specchat.calibration.agreement import greedy_passages
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.llama.model import Model
from specchat.training.agreement import features_of
from specchat.training.texts import CHOICES, Text, most_drafted
from specchat.training.writing import ManyTexts, top_choices, written_texts

TAPS = (1, 2, 3)
SLOTS, LENGTH, ANSWER = 3, 64, 12
PROMPTS = [[1, 270, 271, *([260 + i] * (1 + i % 4))] for i in range(8)]


@pytest.fixture
def model(target: Path) -> Iterator[Model]:
    with Model(target) as model:
        yield model


@pytest.fixture
def many(model: Model) -> Iterator[ManyTexts]:
    with ManyTexts(model, TAPS, SLOTS, LENGTH, 1) as context:
        yield context


def greedily(many: ManyTexts, prompts: list[list[int]]) -> list[Text]:
    return list(written_texts(many, prompts, ANSWER, rng=np.random.default_rng(0)))


def test_texts_written_at_once_are_those_written_alone_with_their_states(model: Model, many: ManyTexts) -> None:
    texts = {tuple(text.tokens[: text.n_prompt].tolist()): text for text in greedily(many, PROMPTS)}
    assert len(texts) == len(PROMPTS), "a prompt was not answered"
    with ExitStack() as stack:
        alone = stack.enter_context(Context(model, ContextParams(LENGTH, 1, 1, layer_inputs=TAPS)))
        for passage in list(greedy_passages(alone, PROMPTS, ANSWER, lambda: False)):
            text = texts[passage.prompt]
            assert tuple(text.tokens[text.n_prompt :].tolist()) == passage.answer
            states = features_of(alone, TAPS, text.tokens[:-1].tolist())
            np.testing.assert_allclose(text.features, states, rtol=2e-3, atol=2e-3)
            # Greedy: what was said is what was most probable.
            assert text.choices[:, 0].tolist() == list(passage.answer)


def test_a_text_that_begins_otherwise_than_all_should_is_refused(many: ManyTexts) -> None:
    many.begin_all_with([1, 270])
    with pytest.raises(LlamaError, match="begin"):
        many.begin(0, [1, 271, 272])


def test_texts_cut_short_by_the_time_are_kept(many: ManyTexts) -> None:
    turns = count()
    texts = list(
        written_texts(many, PROMPTS, ANSWER, rng=np.random.default_rng(0), stop=lambda: next(turns) >= ANSWER // 2)
    )
    assert len(texts) == SLOTS
    assert all(1 < text.n_answer < ANSWER and len(text.choices) == text.n_answer for text in texts)
    assert all(len(text.features) == len(text.tokens) - 1 for text in texts)


def test_warm_texts_differ_from_greedy_ones_and_a_seed_repeats_them(model: Model) -> None:
    def warm(seed: int) -> list[list[int]]:
        with ManyTexts(model, TAPS, SLOTS, LENGTH, 1) as many:
            texts = written_texts(many, PROMPTS, ANSWER, temperatures=(1.0,), rng=np.random.default_rng(seed))
            return [text.tokens.tolist() for text in texts]

    with ManyTexts(model, TAPS, SLOTS, LENGTH, 1) as many:
        greedy = [text.tokens.tolist() for text in greedily(many, PROMPTS)]
    assert warm(1) == warm(1) != warm(2)
    assert warm(1) != greedy


def test_the_most_probable_tokens_come_with_their_probabilities() -> None:
    logits = np.random.default_rng(0).standard_normal(500).astype(np.float32) * 3
    ids, chances = top_choices(logits)
    exact = np.exp(logits.astype(np.float64)) / np.exp(logits.astype(np.float64)).sum()
    assert ids.tolist() == np.argsort(-exact)[:CHOICES].tolist()
    np.testing.assert_allclose(chances, exact[ids], rtol=1e-5)


def test_the_draft_vocabulary_is_what_the_target_gives_most_probability_to() -> None:
    choices = np.array([[7, 3], [7, 9]], np.int32)
    chances = np.array([[0.5, 0.25], [0.5, 0.125]], np.float16)
    text = Text(np.zeros(3, np.int32), 1, np.zeros((2, 3), np.float16), choices, chances)
    assert most_drafted([text], 20, 2).tolist() == [3, 7]
    assert most_drafted([text], 20, 5).tolist() == [0, 1, 3, 7, 9], "it is filled up with the commonest pieces"
