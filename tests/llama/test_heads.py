"""Hidden states come out of the target right, and a trained head reads them right, whatever the sizes of the passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.llama import hidden
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import ContextFull, LlamaError
from specchat.llama.hidden import HiddenRows, HiddenStatesMissing, hidden_functions
from specchat.llama.model import Model
from specchat.llama.trained_head import EAGLE3_WIRING, NEXTN_WIRING, HeadContext, HeadModel
from tests.head_models import write_eagle_head, write_hybrid_model
from tests.tiny_model import WIDTH, write_model

LAYERS = (1, 2, 3)
IDS = [1, *range(20, 60, 2), 40, 41, 45, 60, 99, 200]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("heads")
    target = write_model(path / "tiny.gguf", layers=4)
    write_eagle_head(path / "reduced.gguf", target, draft_vocab=100)
    write_eagle_head(path / "own.gguf", target, draft_vocab=100, own_embedding=True)
    write_eagle_head(path / "shared.gguf", target, own_output=False)
    write_hybrid_model(path / "hybrid.gguf")
    return path


@pytest.fixture(scope="module")
def target(directory: Path) -> Iterator[Context]:
    model = Model(directory / "tiny.gguf")
    context = Context(model, ContextParams(n_ctx=64, n_outputs_max=8, threads=1, n_batch=32, layer_inputs=LAYERS))
    yield context
    context.close()
    model.close()


@pytest.fixture(scope="module")
def hybrid(directory: Path) -> Iterator[Context]:
    model = Model(directory / "hybrid.gguf", load_mtp=True)
    context = Context(model, ContextParams(n_ctx=64, n_outputs_max=8, threads=1, n_batch=32, n_rs_seq=3, nextn=True))
    yield context
    context.close()
    model.close()


def features(target: Context) -> NDArray[np.float32]:
    """The fused features of IDS, from one pass."""
    target.clear()
    target.prefill(IDS)
    return np.concatenate([target.layer_input(layer) for layer in LAYERS], axis=1)


def weights(path: Path) -> dict[str, NDArray[np.float32]]:
    import gguf

    return {tensor.name: np.array(tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def normed(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + 1e-5), dtype=np.float32)


def rotated(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """RoPE of rows [position, head, size] over neighbouring pairs."""
    size = rows.shape[-1]
    angles = np.arange(len(rows))[:, None] * 10_000.0 ** (-np.arange(0, size, 2) / size)
    turned = (rows[..., ::2] + 1j * rows[..., 1::2]) * np.exp(1j * angles)[:, None, :]
    out = np.empty_like(rows)
    out[..., ::2], out[..., 1::2] = turned.real, turned.imag
    return out


def eagle_by_hand(
    w: dict[str, NDArray[np.float32]], embeddings: NDArray[np.float32], tokens: list[int], g: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Logits [n, draft vocabulary] of an EAGLE-3 layer with two heads (Li et al. 2503.01840, section 3.1)."""
    n, both = len(tokens), np.concatenate([normed(embeddings[tokens]), normed(g)], axis=1)
    q, k, v = ((both @ w[f"blk.0.attn_{name}.weight"].T).reshape(n, 2, -1) for name in "qkv")
    scores = np.einsum("ihd,jhd->hij", rotated(q), rotated(k)) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones((n, n), dtype=bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    x = g + np.einsum("hij,jhd->ihd", p, v).reshape(n, -1) @ w["blk.0.attn_output.weight"].T
    h = normed(x)
    gate = h @ w["blk.0.ffn_gate.weight"].T
    x = x + (gate / (1 + np.exp(-gate)) * (h @ w["blk.0.ffn_up.weight"].T)) @ w["blk.0.ffn_down.weight"].T
    return np.asarray(normed(x) @ w["output.weight"].T, dtype=np.float32)


@pytest.mark.parametrize("name", ["reduced", "own"])
def test_an_eagle_head_computes_what_the_paper_says(directory: Path, target: Context, name: str) -> None:
    w, rows = weights(directory / f"{name}.gguf"), features(target)
    embeddings = w.get("token_embd.weight", weights(directory / "tiny.gguf")["token_embd.weight"])
    drafted = w["d2t"].astype(np.int64)
    expected = eagle_by_hand(w, embeddings, IDS[1:], rows[:-1] @ w["fc.weight"].T)
    with HeadContext(HeadModel(directory / f"{name}.gguf"), target, EAGLE3_WIRING) as head:
        for i, token in enumerate(IDS[1:]):
            logits, _ = head.draft([token], head.encode(rows[i : i + 1]))
            np.testing.assert_allclose(logits[drafted], expected[i], atol=2e-3 * np.abs(expected).max())
            assert np.isneginf(np.delete(logits, drafted)).all()


@pytest.mark.parametrize("n", [3, 12, len(IDS) - 1])
def test_a_head_that_drafts_in_parallel_computes_what_masks_give(directory: Path, target: Context, n: int) -> None:
    count, rows = 5, features(target)
    path = write_eagle_head(directory / "parallel.gguf", directory / "tiny.gguf", draft_vocab=100, mask_token=2)
    w, model = weights(path), HeadModel(path)
    assert model.mask is not None
    token, state = model.mask
    g = np.concatenate([rows[:n] @ w["fc.weight"].T, np.tile(state, (count - 1, 1))])
    embeddings = weights(directory / "tiny.gguf")["token_embd.weight"]
    expected = eagle_by_hand(w, embeddings, [*IDS[1 : n + 1], *[token] * (count - 1)], g)[-count:]
    with HeadContext(model, target, EAGLE3_WIRING) as head:
        logits = head.draft_parallel(IDS[1 : n + 1], head.encode(rows[:n]), count)
        drafted = w["d2t"].astype(np.int64)
        np.testing.assert_allclose(logits[:, drafted], expected, atol=2e-3 * np.abs(expected).max())
        assert head.truncate(n)
        with pytest.raises(LlamaError, match="17 tokens in one pass"):
            head.draft_parallel([1], head.encode(rows[n : n + 1]), 17)


@pytest.mark.parametrize("name", ["reduced", "own", "shared"])
def test_an_eagle_head_reads_many_rows_as_it_reads_one(directory: Path, target: Context, name: str) -> None:
    rows = features(target)
    with HeadContext(HeadModel(directory / f"{name}.gguf"), target, EAGLE3_WIRING) as head:
        for i, token in enumerate(IDS[1:]):
            logits, state = head.draft([token], head.encode(rows[i : i + 1]))
        one_by_one, own = logits.copy(), state.copy()
        assert head.truncate(0)
        # More rows than have logits at once: only the last ones are asked for theirs.
        assert len(IDS) - 1 > 16
        logits, state = head.draft(IDS[1:], head.encode(rows[:-1]))
        np.testing.assert_allclose(logits, one_by_one, rtol=1e-5)
        np.testing.assert_allclose(state, own, rtol=1e-5)
        # Its own state takes the feature's place when it drafts on.
        assert state.shape == (1, WIDTH)
        head.draft([int(logits.argmax())], state)
        assert len(head.tokens) == len(IDS)


def test_a_nextn_layer_reads_many_rows_as_it_reads_one(hybrid: Context) -> None:
    hybrid.clear()
    hybrid.prefill(IDS)
    before = np.concatenate([np.zeros((1, hybrid.model.n_embd), np.float32), hybrid.nextn_rows()[:-1]])
    with HeadContext(hybrid.model, hybrid, NEXTN_WIRING) as head:
        for i, token in enumerate(IDS):
            logits, state = head.draft([token], before[i : i + 1])
        one_by_one, own = logits.copy(), state.copy()
        assert head.truncate(0)
        logits, state = head.draft(IDS, before)
        np.testing.assert_allclose(logits, one_by_one, rtol=1e-5)
        np.testing.assert_allclose(state, own, rtol=1e-5)


@pytest.mark.parametrize("pieces", [(1,) * 27, (26, 1), (5, 20, 2)])
def test_states_are_told_of_every_pass_and_do_not_depend_on_its_size(target: Context, pieces: tuple[int, ...]) -> None:
    expected = features(target)
    told: list[tuple[int, int]] = []

    def observe(first: int, tokens: object) -> None:
        rows = target.layer_input(LAYERS[-1])
        told.append((first, len(rows)))
        np.testing.assert_allclose(rows, expected[first : first + len(rows), -WIDTH:], rtol=1e-5)

    target.watch(observe)
    target.clear()
    start = 0
    for n in pieces:
        # The outputs that are asked for change nothing.
        target.decode(IDS[start : start + n], outputs=min(1, n, start))
        start += n
    target._observers.clear()
    assert told == [(sum(pieces[:i]), n) for i, n in enumerate(pieces)]


def test_a_prefill_tells_of_each_of_its_pieces(target: Context) -> None:
    told: list[tuple[int, list[int]]] = []
    target.watch(lambda first, tokens: told.append((first, list(tokens))))
    target.clear()
    target.prefill([5] * 40)
    target._observers.clear()
    assert [(first, len(tokens)) for first, tokens in told] == [(0, 32), (32, 8)]


def test_a_pass_that_was_refused_is_told_to_nobody(target: Context) -> None:
    told: list[int] = []
    target.watch(lambda first, _tokens: told.append(first))
    target.clear()
    with pytest.raises(LlamaError):
        target.decode([10**6])
    target._observers.clear()
    assert told == []


def test_a_layer_that_was_not_asked_for_is_refused_not_aborted_on(target: Context, directory: Path) -> None:
    with pytest.raises(LlamaError, match="layer 0"):
        target.layer_input(0)
    with pytest.raises(LlamaError, match="NextN"):
        target.nextn_rows()
    params = ContextParams(n_ctx=32, n_outputs_max=1, threads=1)
    tapped = replace(params, layer_inputs=(1,))
    with Context(target.model, tapped) as fresh, pytest.raises(LlamaError, match="no pass"):
        fresh.layer_input(1)
    with Context(target.model, params) as untapped, pytest.raises(LlamaError, match="without hidden states"):
        untapped.layer_input(1)


def test_layers_that_a_model_does_not_have_are_refused_not_aborted_on(target: Context) -> None:
    # The input of layer 4 would be the last layer's output, which no graph of this kind hands out.
    params = ContextParams(n_ctx=32, n_outputs_max=1, threads=1, layer_inputs=(1, 4))
    with pytest.raises(HiddenStatesMissing, match="layers 1, 4 of a model with 4"):
        Context(target.model, params)


def test_an_architecture_that_hands_out_no_layers_is_refused_not_aborted_on() -> None:
    with pytest.raises(HiddenStatesMissing, match="'qwen2'"):
        HiddenRows(None, architecture="qwen2", n_layer=4, width=8, layer_inputs=(1,), nextn=False)


def test_a_build_without_the_functions_is_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hidden._C_NAMES, "llama_absent", ("_Z12llama_absentv",))
    with pytest.raises(HiddenStatesMissing, match=r"no llama_absent.*the same without"):
        hidden._function("llama_absent", None)
    assert hidden_functions() is hidden_functions()


def test_what_a_head_would_abort_on_or_misread_is_refused(directory: Path, target: Context) -> None:
    rows = features(target)
    with HeadContext(HeadModel(directory / "reduced.gguf"), target, EAGLE3_WIRING) as head:
        states = head.encode(rows[:4])
        with pytest.raises(LlamaError, match="together with states"):
            head.decode([1])
        with pytest.raises(LlamaError, match="Features of 32"):
            head.encode(rows[:4, :WIDTH])
        with pytest.raises(LlamaError, match="no pairs"):
            head.draft([1, 2, 3], states)
        with pytest.raises(LlamaError, match="outside"):
            head.draft([1, 2, 3, 5000], states)
        with pytest.raises(ContextFull):
            head.read([1] * 65, np.zeros((65, WIDTH), np.float32))
        assert len(head.tokens) == 64
        assert head.truncate(0)
        head.draft([1, 2, 3, 4], states)
        assert head.tokens == [1, 2, 3, 4]


def after(context: Context, pieces: tuple[int, ...], back: int) -> tuple[bool, NDArray[np.float32]]:
    """Whether `back` tokens can be taken back after passes over `pieces` tokens of IDS, and the next row."""
    context.clear()
    start = 0
    for n in pieces:
        context.decode(IDS[start : start + n], outputs=0)
        start += n
    able = context.truncate(start - back)
    return able, context.decode([50]).copy()


@pytest.mark.parametrize(
    ("pieces", "back", "able"),
    [
        ((20,), 3, True),
        ((20,), 4, False),
        ((16, 4), 3, True),
        ((17, 3), 2, True),
        # A whole pass can't be taken back, nor passes one by one: llama.cpp says it can, and has another state then.
        ((17, 3), 3, False),
        ((18, 2), 2, False),
        ((18, 1, 1), 1, False),
        ((18, 1, 1), 2, False),
    ],
)
def test_a_running_state_goes_back_where_it_can_and_says_where_it_can_not(
    hybrid: Context, pieces: tuple[int, ...], back: int, able: bool
) -> None:
    assert hybrid.most_taken_back == 3
    told, row = after(hybrid, pieces, back)
    assert told is able
    _, expected = after(hybrid, (sum(pieces) - (back if able else 0),), 0)
    np.testing.assert_allclose(row, expected, rtol=1e-4)


def test_a_running_state_goes_back_once_a_pass(hybrid: Context) -> None:
    hybrid.clear()
    hybrid.decode(IDS[:8], outputs=0)
    assert hybrid.truncate(7)
    assert not hybrid.truncate(6)
    assert hybrid.tokens == IDS[:7]


def test_nextn_layers_draft_only_where_they_were_loaded(directory: Path) -> None:
    with Model(directory / "hybrid.gguf") as without, Model(directory / "hybrid.gguf", load_mtp=True) as with_them:
        assert without.n_layer == with_them.n_layer == 4
