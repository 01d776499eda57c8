from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specchat.llama.errors import ModelUnusable
from specchat.training.lessons import Lesson, Lessons
from specchat.training.texts import CHOICES, Text
from specchat.training.weights import Tensors, head_shape
from tests.tiny_model import write_model

STEPS = 3
IDS = np.arange(100, 200, dtype=np.int64)


def text_of(n: int, n_prompt: int, start: int) -> Text:
    """Tokens start, start + 1, …; feature i is i everywhere, and what is chosen at row i is the token of row i + 1."""
    tokens = np.arange(start, start + n, dtype=np.int32)
    choices = np.full((n - n_prompt, CHOICES), 5, np.int32)
    choices[:, 0] = tokens[n_prompt:]
    chances = np.zeros((n - n_prompt, CHOICES), np.float16)
    chances[:, :2] = 0.75, 0.25
    features = np.repeat(np.arange(n - 1, dtype=np.float16)[:, None], 96, axis=1)
    return Text(tokens, n_prompt, features, choices, chances)


def lesson_of(target: Path, *texts: Text) -> Lesson:
    rng = np.random.default_rng(0)
    lessons = Lessons(texts, Tensors(target), IDS, rows_a_lesson=32 * len(texts), steps=STEPS, rng=rng)
    return lessons.draw()


def test_a_pair_is_a_feature_the_token_after_it_and_what_the_target_chose_then(target: Path) -> None:
    text = text_of(20, 6, 110)
    lesson = lesson_of(target, text)
    embeddings = Tensors(target).rows("token_embd.weight")
    for pair in range(18):
        assert lesson.features[0, pair, 0] == pair
        np.testing.assert_array_equal(lesson.embedded[0, pair], embeddings[110 + pair + 1])
        if pair >= 4:
            # The pair of token 5, the prompt's last, is the first whose logits are for a token of the answer.
            assert IDS[lesson.rows[0, pair, 0]] == 110 + pair + 2
            assert lesson.chances[0, pair, 0] == 0.75
        else:
            assert not lesson.chances[0, pair].any(), "prompts are not to be learned"
    assert not lesson.chances[0, 18:].any(), "nothing is known of what follows the answer"


def test_tokens_that_the_head_has_no_row_for_weigh_nothing(target: Path) -> None:
    lesson = lesson_of(target, text_of(20, 6, 190))
    chosen = lesson.chances[0, 4:18, 0]
    # Tokens from 200 on are not the head's, and token 5, the second choice everywhere, is not either.
    assert chosen[:4].tolist() == [0.75] * 4
    assert not chosen[4:].any()
    assert not lesson.chances[..., 1].any()


def test_every_text_is_read_before_one_is_read_again(target: Path) -> None:
    texts = [text_of(20, 6, 100 + i) for i in range(6)]
    rng = np.random.default_rng(1)
    lessons = Lessons(texts, Tensors(target), IDS, rows_a_lesson=64, steps=STEPS, rng=rng)
    assert (lessons.positions, lessons.texts_a_lesson) == (32, 2)
    drawn = [row for _ in range(3) for row in lessons.draw().rows[:, 4, 0].tolist()]
    assert sorted(drawn) == [6, 7, 8, 9, 10, 11]


def test_a_target_of_few_layers_or_another_build_is_refused(target: Path, tiny: Path, tmp_path: Path) -> None:
    assert head_shape(Tensors(target)).taps == (1, 2, 3)
    with pytest.raises(ModelUnusable, match="at least 4"):
        head_shape(Tensors(tiny))
    other = write_model(tmp_path / "other.gguf", layers=4, architecture="qwen2")
    with pytest.raises(ModelUnusable, match="qwen2"):
        head_shape(Tensors(other))
