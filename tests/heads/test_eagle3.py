"""A published EAGLE-3 head becomes a GGUF that llama.cpp drafts with as its authors' code would."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.heads.convert import convert
from specchat.heads.errors import CheckpointUnusable
from specchat.heads.kinds import CheckpointKind, WeightType
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.gguf import read_header
from specchat.llama.head import OutputEnd
from specchat.llama.model import Model
from tests.heads.checkpoints import HeadSizes, Published, as_speculators, eagle3
from tests.heads.eagle3_reference import Reference
from tests.heads.native_eagle3 import NativeHead, native_head
from tests.tiny_model import WIDTH, write_model

LAYERS = 8
TOKENS = [270, 3, 281, 262, 279, 105]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    path = write_model(tmp_path_factory.mktemp("target") / "eight.gguf", layers=LAYERS)
    with Model(path) as model, Context(model, ContextParams(64, 8, 1, n_batch=64)) as context:
        yield context


def features(rows: int, width: int = WIDTH, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 3, (rows, 3 * width)).astype(np.float32)


def chained(head: NativeHead, reference: Reference, tolerance: float, steps: int = 3) -> None:
    """Read six tokens, then draft: at every step llama.cpp says what numpy says."""
    g = head.fused(features(len(TOKENS)))
    expected_g = reference.fused(features(len(TOKENS)))
    np.testing.assert_allclose(g, expected_g, atol=tolerance)
    tokens, rows = list(TOKENS), expected_g
    logits, states = head.read(tokens, g, 0)
    ids = reference.target_ids()
    for _ in range(steps):
        expected = reference.states(tokens, rows)
        np.testing.assert_allclose(logits[-1][ids], reference.logits(expected)[-1], atol=tolerance)
        others = np.setdiff1d(np.arange(logits.shape[1]), ids)
        assert np.isneginf(logits[-1][others]).all()
        token = int(logits[-1].argmax())
        assert token == ids[reference.logits(expected)[-1].argmax()]
        tokens.append(token)
        rows = np.concatenate([rows, expected[-1:]])
        logits, states = head.read([token], states[-1:], len(tokens) - 1)


def slow(factor: float, low: float, high: float, original: int, theta: float, size: int) -> NDArray[np.float64]:
    """Llama 3.1's divisors, one frequency after the other."""
    divisors = []
    for i in range(0, size, 2):
        wave = 2 * math.pi * theta ** (i / size)
        if wave < original / high:
            divisors.append(1.0)
        elif wave > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wave - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors)


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip


def with_fc_norm(published: Published) -> Published:
    published.tensors["input_norm.weight"] = np.linspace(0.5, 2, 3 * WIDTH, dtype=np.float32)
    published.config["norm_before_fc"] = True
    return published


def with_config(**values: Any) -> Callable[[Published], Published]:
    def change(published: Published) -> Published:
        published.config |= values
        return published

    return change


CHANGES: dict[str, tuple[Callable[[Published], Published], NDArray[np.float64] | None]] = {
    "SpecForge": (lambda published: published, None),
    "speculators": (as_speculators, None),
    "normed residual": (with_config(norm_before_residual=True), None),
    "normed features": (with_fc_norm, None),
    "llama3 rope": (with_config(rope_scaling=LLAMA3), slow(8, 1, 4, 64, 500, 8)),
    "linear rope": (with_config(rope_scaling={"type": "linear", "factor": 4.0}), np.full(4, 4.0)),
    "padded embedding": (lambda published: padded(published), None),
}


def padded(published: Published) -> Published:
    embedding = published.tensors["embed_tokens.weight"]
    published.tensors["embed_tokens.weight"] = np.pad(embedding, ((0, 10), (0, 0)))
    return published


@pytest.mark.parametrize("change", CHANGES)
def test_llama_cpp_drafts_what_the_checkpoint_says(target: Context, tmp_path: Path, change: str) -> None:
    changed, slowed = CHANGES[change]
    published = changed(eagle3())
    written = convert(
        published.write(tmp_path / "head"), tmp_path / "head.gguf", target=target.model.path, weight_type=WeightType.F32
    )
    assert (written.kind, written.draft_tokens) == (CheckpointKind.EAGLE3, 100)
    with native_head(written.path, target, WIDTH) as head:
        chained(head, Reference(published, slowed=slowed), 1e-4)


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize(("weight_type", "tolerance"), [(WeightType.F16, 0.02), (WeightType.Q8_0, 0.6)])
def test_every_stored_type_becomes_every_other(
    target: Context, tmp_path: Path, kind: str, weight_type: WeightType, tolerance: float
) -> None:
    published = eagle3()
    published.kind = kind
    written = convert(
        published.write(tmp_path / "head"), tmp_path / "h.gguf", target=target.model.path, weight_type=weight_type
    )
    with native_head(written.path, target, WIDTH) as head:
        chained(head, Reference(published), tolerance)
    f32 = convert(
        published.write(tmp_path / "head"), tmp_path / "f.gguf", weight_type=WeightType.F32, target=target.model.path
    )
    assert written.size < 0.6 * f32.size


def test_a_head_without_embedding_and_output_takes_its_targets(target: Context, tmp_path: Path) -> None:
    published = eagle3(own_embedding=False, own_output=False)
    written = convert(
        published.write(tmp_path / "head"), tmp_path / "head.gguf", target=target.model.path, weight_type=WeightType.F32
    )
    end = OutputEnd(target.model.path)
    embedding = _embedding_of(target.model.path)
    reference = Reference(published, embedding=lambda token: embedding[token].astype(np.float64))
    g = reference.fused(features(len(TOKENS)))
    with native_head(written.path, target, WIDTH) as head:
        logits, _ = head.read(TOKENS, g.astype(np.float32), 0)
    expected = reference.final(reference.states(TOKENS, g)) @ end.weights(np.arange(end.n_tokens)).T
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def _embedding_of(path: Path) -> NDArray[np.float32]:
    header = read_header(path)
    place = header.tensors["token_embd.weight"]
    data = path.read_bytes()[header.data_start + place.offset :][: place.n_bytes]
    return np.frombuffer(data, dtype=np.float32).reshape(place.shape[::-1])


@pytest.mark.demo
def test_a_head_for_the_demo_loads_beside_it_and_drafts(demo: Path, tmp_path: Path) -> None:
    sizes = HeadSizes(
        width=64, heads=4, head_size=16, ffn=128, target_width=576, target_tokens=49_152, draft_tokens=2_000
    )  # fmt: skip
    published = eagle3(sizes)
    written = convert(
        published.write(tmp_path / "head"), tmp_path / "head.gguf", target=demo, weight_type=WeightType.F32
    )
    assert read_header(written.path).array_of_architecture("target_layers") == (2, 15, 27)
    reference = Reference(published)
    g = reference.fused(features(len(TOKENS), 576)).astype(np.float32)
    expected = reference.states(TOKENS, g.astype(np.float64))
    with (
        Model(demo) as model,
        Context(model, ContextParams(64, 8, 1, n_batch=64)) as context,
        native_head(written.path, context, sizes.width) as head,
    ):
        logits, states = head.read(TOKENS, g, 0)
    np.testing.assert_allclose(states, expected, atol=2e-4)
    np.testing.assert_allclose(logits[:, reference.target_ids()], reference.logits(expected), atol=2e-4)


@pytest.mark.parametrize(
    ("values", "layers"),
    [
        ({}, (2, 4, 5)),
        ({"eagle_aux_hidden_state_layer_ids": [1, 3, 7]}, (1, 3, 7)),
        # SGLang's layout counts outputs: layer 1's output is the input of layer 2.
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 4]}}, (2, 4, 5)),
        ({"eagle_config": {"use_aux_hidden_state": True}}, (2, 4, 5)),
    ],
)
def test_the_layers_are_those_of_the_config_else_the_papers(
    target: Context, tmp_path: Path, values: dict[str, Any], layers: tuple[int, ...]
) -> None:
    source = with_config(**values)(eagle3()).write(tmp_path / "head")
    written = convert(source, tmp_path / "head.gguf", target=target.model.path)
    assert read_header(written.path).array_of_architecture("target_layers") == layers


def test_without_a_target_the_config_must_say_all(tmp_path: Path) -> None:
    published = eagle3()
    with pytest.raises(CheckpointUnusable, match=r"which layers the head reads\. Name its target with --target"):
        convert(published.write(tmp_path / "head"), tmp_path / "head.gguf")
    published.config |= {"eagle_aux_hidden_state_layer_ids": [2, 4, 5]}
    header = read_header(convert(published.write(tmp_path / "head"), tmp_path / "head.gguf").path)
    assert header.of_architecture("target_hidden_size") == WIDTH
    assert header.of_architecture("vocab_size") == 286


def without(*names: str) -> Callable[[Published], None]:
    def change(published: Published) -> None:
        for name in names:
            published.tensors.pop(name)

    return change


def shaped(name: str, *shape: int) -> Callable[[Published], None]:
    def change(published: Published) -> None:
        published.tensors[name] = np.zeros(shape, dtype=np.float32)

    return change


def configured(**values: Any) -> Callable[[Published], None]:
    def change(published: Published) -> None:
        published.config |= values
        published.config = {key: value for key, value in published.config.items() if value is not None}

    return change


def d2t(*offsets: int) -> Callable[[Published], None]:
    def change(published: Published) -> None:
        published.tensors["d2t"][: len(offsets)] = offsets

    return change


REFUSED: dict[str, tuple[Callable[[Published], None], str]] = {
    "missing": (without("midlayer.self_attn.o_proj.weight"), "lacks the tensor midlayer.self_attn.o_proj.weight"),
    "no norm": (without("norm.weight"), "lacks the tensor norm.weight"),
    "eagle-1": (without("norm.weight", "midlayer.hidden_norm.weight"), "EAGLE-1 or EAGLE-2"),
    "another kind": (without("fc.weight"), "no draft head known here"),
    "no rows": (without("lm_head.weight"), "the head has a vocabulary of its own"),
    "width of fc": (shaped("fc.weight", 32, 3 * 48), "fc.weight of head is 32 × 144; for eight it must be 32 × 96"),
    "width of q": (shaped("midlayer.self_attn.q_proj.weight", 32, 32), "is 32 × 32; for eight it must be 32 × 64"),
    "norm": (shaped("midlayer.hidden_norm.weight", 31), "is 31; for eight it must be 32"),
    "few embeddings": (shaped("embed_tokens.weight", 100, 32), "is 100 × 32; for eight it must be 286 × 32"),
    "few rows": (shaped("lm_head.weight", 99, 32), "is 99 × 32; for eight it must be 100 × 32"),
    "biases": (shaped("midlayer.self_attn.q_proj.bias", 32), "does not compute: midlayer.self_attn.q_proj.bias"),
    "twice under two names": (shaped("model.norm.weight", 32), "twice, as norm.weight and model.norm.weight"),
    "twice": (d2t(0, -1), "names tokens twice or past the target's 286"),
    "past the end": (d2t(286), "names tokens twice or past the target's 286"),
    "two layers": (configured(num_hidden_layers=2), "a head of 2 layers"),
    "no heads": (configured(num_attention_heads=None), "does not say num_attention_heads"),
    "text for a number": (configured(hidden_size="32"), "has hidden_size '32', which can't be converted"),
    "yes for a number": (configured(intermediate_size=True), "has intermediate_size True"),
    "number for a yes": (configured(norm_before_residual=1), "has norm_before_residual 1"),
    "odd groups": (configured(num_key_value_heads=3), "4 heads of 8 dimensions for 3 heads of keys"),
    "activation": (configured(hidden_act="gelu"), "has hidden_act 'gelu'"),
    "rope": (configured(rope_scaling={"type": "dynamic", "factor": 2.0}), "has rope_scaling"),
    "rope factor": (configured(rope_scaling={"type": "linear", "factor": -1}), "has factor -1"),
    "epsilon": (configured(rms_norm_eps=float("inf")), "has rms_norm_eps inf"),
    "two ids": (configured(eagle_aux_hidden_state_layer_ids=[1, 2]), "has eagle_aux_hidden_state_layer_ids"),
    "ids past the end": (configured(eagle_aux_hidden_state_layer_ids=[1, 2, 8]), "but eight has 8"),
    "another target": (configured(target_hidden_size=4096), "target of width 4,096; eight has width 32"),
    "no norm of features": (configured(norm_before_fc=True), "lacks the tensor input_norm.weight"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_converted_is_refused_with_a_sentence_and_nothing_is_written(
    target: Context, tmp_path: Path, case: str
) -> None:
    change, sentence = REFUSED[case]
    published = eagle3()
    change(published)
    source = published.write(tmp_path / "head")
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointUnusable) as refused:
        convert(source, tmp_path / "out" / "head.gguf", target=target.model.path)
    assert sentence in str(refused.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_targets_own_parts_do_not_stand_in_for_a_narrower_heads(target: Context, tmp_path: Path) -> None:
    published = eagle3(HeadSizes(width=64, head_size=16))
    without("embed_tokens.weight")(published)
    with pytest.raises(CheckpointUnusable, match="the head's width is 64 and the target's 32"):
        convert(published.write(tmp_path / "head"), tmp_path / "head.gguf", target=target.model.path)
