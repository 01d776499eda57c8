"""Layers can be read and passes stopped early without a trace, and a head cut from a model is that model's end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.llama.head import Head, HeadNotCuttable, OutputEnd, cut_head
from specchat.llama.model import Model
from specchat.llama.surgery import rewrite
from specchat.llama.taps import FINAL_STATE, PartialPasses, TapMissing, layer_output
from tests.tiny_model import write_model

LAYERS = 4
TEXT = [270, 275, 281, 262, 279, 284, 270]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("taps") / "four.gguf", layers=LAYERS, seed=3)


@pytest.fixture(scope="module")
def head(source: Path) -> Iterator[Head]:
    path = source.with_name("head.gguf")
    cut_head(OutputEnd(source), path)
    with Head(path, threads=1) as head:
        yield head


@pytest.fixture(scope="module")
def model(source: Path) -> Iterator[Model]:
    with Model(source) as model:
        yield model


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    with Context(model, ContextParams(64, 8, 1, n_batch=32, layer_tap=True)) as context:
        yield context


@pytest.mark.parametrize("layer", range(1, LAYERS))
def test_leaving_after_a_layer_is_the_model_without_the_layers_above(
    source: Path, head: Head, context: Context, layer: int
) -> None:
    shallow = source.with_name(f"first-{layer}.gguf")
    rewrite(source, shallow, drop=range(layer, LAYERS))
    with Model(shallow) as model, Context(model, ContextParams(64, 8, 1)) as expected, PartialPasses(context) as passes:
        for token in TEXT:
            own = expected.decode([token])[0]
            np.testing.assert_allclose(head.logits(passes.run([token], layer)[-1]), own, rtol=0, atol=1e-5)


def test_after_all_layers_the_head_gives_the_models_own_logits(head: Head, context: Context) -> None:
    context.prefill(TEXT[:-1])
    own = context.decode(TEXT[-1:])[0].copy()
    context.truncate(len(TEXT) - 1)
    with PartialPasses(context) as passes:
        np.testing.assert_array_equal(head.logits(passes.run(TEXT[-1:], LAYERS)[0]), own)


def test_a_pass_that_stops_reads_what_a_whole_pass_reads(context: Context) -> None:
    names = (layer_output(1), layer_output(3), FINAL_STATE)
    with PartialPasses(context) as passes:
        whole = passes.read(TEXT, names)
    assert [states.shape for states in whole] == [(len(TEXT), context.model.n_embd)] * 3
    for layer, states in ((1, whole[0]), (3, whole[1])):
        with PartialPasses(context) as passes:
            np.testing.assert_array_equal(passes.run(TEXT, layer), states)


def test_the_context_is_as_it_was_whatever_was_read_past_it(model: Model, context: Context) -> None:
    with Context(model, ContextParams(64, 8, 1, n_batch=32)) as untouched:
        for ctx in (untouched, context):
            ctx.prefill(TEXT)
        passes = PartialPasses(context)
        for n in (1, 3, 5):
            with passes:
                for token in TEXT[:n]:
                    passes.run([token], 2)
                assert context.tokens == untouched.tokens
            row = untouched.decode([270]).copy()
            np.testing.assert_array_equal(context.decode([270]), row)
            assert context.tokens == untouched.tokens


class Interrupted(BaseException):
    """As Ctrl-C: no Exception."""


def test_what_is_raised_inside_the_callback_is_raised_outside(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.prefill(TEXT)
    assert context.tap is not None
    tap = context.tap

    def broken(*_: object) -> bool:
        raise Interrupted

    watch = type(tap.watch((b"",), 1, 0, 1))
    tap.unwatch((b"",), 1, 0)
    expected = context.decode([270]).copy()
    context.truncate(len(TEXT))
    for method in ("wants", "take"):
        with monkeypatch.context() as patch:
            patch.setattr(watch, method, broken)
            with pytest.raises(Interrupted), PartialPasses(context) as passes:
                passes.run([270], 2)
        assert context.tokens == TEXT
        np.testing.assert_array_equal(context.decode([270]), expected)
        context.truncate(len(TEXT))


def test_an_address_remembered_wrongly_is_found_again(context: Context) -> None:
    with PartialPasses(context) as passes:
        expected = passes.run(TEXT[:1], 2)
    assert context.tap is not None
    for wrong in (0, 10**6):
        context.tap._addresses[(layer_output(2),), 1, 0] = [wrong]
        with PartialPasses(context) as passes:
            np.testing.assert_array_equal(passes.run(TEXT[:1], 2), expected)


def test_what_can_not_be_read_is_said(model: Model, context: Context) -> None:
    with pytest.raises(TapMissing, match="l_out-6"), PartialPasses(context) as passes:
        passes.run(TEXT, 7)
    context.prefill(TEXT)
    with PartialPasses(context) as passes, pytest.raises(LlamaError):
        passes.run([270] * 33, 2)
    with Context(model, ContextParams(64, 8, 1)) as untapped, pytest.raises(LlamaError, match="without a layer tap"):
        PartialPasses(untapped)


def test_a_head_of_some_tokens_is_a_choice_of_columns(source: Path, head: Head) -> None:
    ids = [0, 2, 3, 77, 264, 280]
    path = source.with_name("some.gguf")
    cut_head(OutputEnd(source), path, ids)
    state = np.random.default_rng(0).normal(0, 1, head.width).astype(np.float32)
    with Head(path, threads=1) as some:
        assert some.token_ids is not None
        assert some.token_ids.tolist() == ids
        assert some.size_bytes < head.size_bytes
        np.testing.assert_allclose(some.logits(state), head.logits(state)[ids], rtol=0, atol=1e-5)
    for wrong in ([], [3, 2], [5, 5], [-1, 4], [10**6]):
        with pytest.raises(LlamaError, match="ascending"):
            cut_head(OutputEnd(source), path, wrong)


def test_a_model_whose_end_is_more_than_a_norm_and_a_matrix_is_refused(tmp_path: Path) -> None:
    for key in ("final_logit_softcapping", "logit_scale"):
        path = write_model(tmp_path / f"{key}.gguf", extra={key: 30})
        with pytest.raises(HeadNotCuttable, match="logits"):
            OutputEnd(path)
