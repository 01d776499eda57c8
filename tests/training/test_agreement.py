from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, FlashAttention
from specchat.llama.model import Model
from specchat.llama.trained_head import EAGLE3_WIRING, HeadContext, HeadModel
from specchat.training.agreement import NumpyHead, features_of, met
from specchat.training.weights import Tensors, head_shape

TEXT = [1, *(260 + i * 7 % 26 for i in range(40))]
DEPTH = 3


@pytest.fixture
def contexts(target: Path, random_head: Path) -> Iterator[tuple[Context, HeadContext]]:
    taps = head_shape(Tensors(target)).taps
    with ExitStack() as stack:
        model = stack.enter_context(Model(target))
        params = ContextParams(256, 64, 1, layer_inputs=taps, flash_attention=FlashAttention.OFF)
        context = stack.enter_context(Context(model, params))
        head = stack.enter_context(HeadModel(random_head))
        yield context, stack.enter_context(HeadContext(head, context, EAGLE3_WIRING))


def test_what_numpy_computes_of_a_head_is_what_llama_cpp_computes(
    target: Path, random_head: Path, contexts: tuple[Context, HeadContext]
) -> None:
    tensors = Tensors(target)
    shape = head_shape(tensors)
    context, native = contexts
    features = features_of(context, shape.taps, TEXT)
    head = NumpyHead(random_head, tensors, shape)
    expected = head.logits(TEXT, features)
    states = native.encode(features[:-1])
    for i, token in enumerate(TEXT[1:]):
        logits, _ = native.draft([token], states[i : i + 1])
        # The cache of keys and values has 16 bits.
        np.testing.assert_allclose(logits[head.ids], expected[i], atol=0.03 * np.abs(expected).max())
        assert np.isneginf(np.delete(logits, head.ids)).all(), "a token was drafted that the head has no row for"


def test_drafts_of_several_tokens_are_those_of_llama_cpp_from_every_place_of_a_text(
    target: Path, random_head: Path, contexts: tuple[Context, HeadContext]
) -> None:
    tensors = Tensors(target)
    shape = head_shape(tensors)
    context, native = contexts
    features = features_of(context, shape.taps, TEXT)
    expected = NumpyHead(random_head, tensors, shape).drafts(TEXT, features, DEPTH)
    states = native.encode(features[:-1])
    drafted = []
    for i, token in enumerate(TEXT[1:]):
        logits, state = native.draft([token], states[i : i + 1])
        chain = [int(logits.argmax())]
        while len(chain) < DEPTH:
            logits, state = native.draft(chain[-1:], state.copy())
            chain.append(int(logits.argmax()))
        assert native.truncate(i + 1)
        drafted.append(chain)
    same = (np.array(drafted) == expected).mean()
    assert same > 0.95, f"only {same:.0%} of the drafted tokens are the same"


def test_a_draft_is_tested_up_to_its_first_token_that_the_text_does_not_go_on_with() -> None:
    tokens = [9, 9, 1, 2, 3, 4, 5]
    drafts = np.array([[1, 2, 0], [0, 0, 0], [3, 4, 5], [0, 5, 0], [5, 6, 7]])
    tested, accepted = met(drafts, tokens, [(2, 3), (5, 2), (6, 1)])
    # From 1 on: 1 2 right, 0 wrong. From 4 on: 0 is wrong. From 5 on: right, and the text ends.
    assert tested.tolist() == [3, 1, 1]
    assert accepted.tolist() == [2, 1, 0]
