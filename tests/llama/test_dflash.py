"""A DFlash head computes what its paper says, and what llama.cpp would abort on is refused before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams, KVType
from specchat.llama.dflash import DFlashContext
from specchat.llama.errors import ContextFull, DecodeFailed, LlamaError
from specchat.llama.hidden import States
from specchat.llama.model import Model
from specchat.llama.trained_head import HeadModel
from tests.dflash_models import SIZE, write_dflash_head
from tests.dflash_reference import Reference
from tests.tiny_model import write_model

TAPS, MASK = (0, 2, 3), 2
CHANCE = np.random.default_rng(4)
IDS = [1, *map(int, CHANCE.integers(3, 280, 44))]
KINDS: dict[str, dict[str, Any]] = {
    "all its own": {"own_embedding": True},
    "the target's matrices": {"own_output": False},
    "one layer": {"own_layers": 1},
    "a reduced vocabulary": {"draft_vocab": 90},
    "positions counted in four ways": {"sections": (SIZE // 2, 0, 0, 0)},
    "a sliding window": {"window": 12},
    "causal": {"causal": True},
    "said not to be causal": {"causal": False},
    "five layers tapped": {"layers": (0, 1, 2, 3, 1)},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    with Model(write_model(tmp_path_factory.mktemp("dflash") / "target.gguf", layers=4)) as model:
        params = ContextParams(n_ctx=64, n_outputs_max=8, threads=1, layer_inputs=(0, 1, 2, 3))
        with Context(model, params) as context:
            context.prefill(IDS)
            yield context


def features(target: Context, taps: tuple[int, ...] = TAPS) -> States:
    """Of the whole text, which the target has read in one pass."""
    return np.concatenate([target.layer_input(layer) for layer in taps], axis=1)


def written(target: Context, directory: Path, **kind: Any) -> Path:
    return write_dflash_head(directory / "head.gguf", target.model.path, **{"layers": TAPS, **kind})


@pytest.fixture
def head(target: Context, tmp_path: Path) -> Iterator[DFlashContext]:
    with HeadModel(written(target, tmp_path)) as model, DFlashContext(model, target) as context:
        yield context


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_s_logits_are_those_of_the_paper(target: Context, tmp_path: Path, kind: str) -> None:
    what = KINDS[kind]
    path = written(target, tmp_path, **what)
    rows = features(target, what.get("layers", TAPS))
    plain = Reference(path, target.model.path, window=what.get("window", 0), causal=what.get("causal", False))
    expected = plain.logits(rows[:-1], [IDS[-1], *[MASK] * 5])[1:]
    with HeadModel(path) as model, DFlashContext(model, target) as head:
        # Read in pieces, as while a prompt is read: where one ends can make no difference.
        head.read(IDS[1:20], rows[:19])
        found = head.draft_parallel(IDS[20:], rows[19:-1], 5).astype(np.float64)
        ids = np.arange(found.shape[1]) if head.draft_ids is None else head.draft_ids
        assert np.isfinite(found).sum() == 5 * len(ids)
        # The cache is half as precise as the rest.
        np.testing.assert_allclose(found[:, ids], expected, atol=0.02 * float(expected.std()))
        assert (found[:, ids].argmax(1) == expected.argmax(1)).all()
        assert head.tokens == IDS[1:]


def test_nothing_of_a_block_is_left_in_the_cache(target: Context, head: DFlashContext) -> None:
    rows = features(target)
    head.read(IDS[1:30], rows[:29])
    one = head.draft_parallel(IDS[30:40], rows[29:39], 7).copy()
    other = head.draft_parallel(IDS[40:], rows[39:-1], 3).copy()
    assert head.truncate(29)
    np.testing.assert_array_equal(head.draft_parallel(IDS[30:40], rows[29:39], 7), one)
    np.testing.assert_array_equal(head.draft_parallel(IDS[40:], rows[39:-1], 3), other)


def test_text_before_a_window_can_be_gone_back_to(target: Context, tmp_path: Path) -> None:
    # Longer than what a window of four tokens and a pass of 128 would leave in the cache.
    long = ContextParams(n_ctx=512, n_outputs_max=8, threads=1, layer_inputs=TAPS)
    ids = [3 + 7 * i % 250 for i in range(400)]
    with HeadModel(written(target, tmp_path, window=4)) as model, Context(target.model, long) as other:
        other.prefill(ids)
        rows = features(other)
        with DFlashContext(model, other) as head:
            head.read(ids[1:], rows[:-1])
            assert head.truncate(9)
            again = head.draft_parallel(ids[10:12], rows[9:11], 4).copy()
        with DFlashContext(model, other) as head:
            np.testing.assert_allclose(head.draft_parallel(ids[1:12], rows[:11], 4), again, atol=1e-4)


def test_a_block_is_as_long_as_those_it_was_trained_on(target: Context, tmp_path: Path) -> None:
    for block, drafted in ((4, 3), (16, 15), (None, 15), (40, 15)):
        with HeadModel(written(target, tmp_path, block=block)) as model, DFlashContext(model, target) as head:
            assert head.most_parallel == drafted
            assert head.draft_parallel(IDS[1:3], features(target)[:2], drafted).shape == (drafted, model.vocab.size)


def test_a_quantised_cache_drafts_too(target: Context, tmp_path: Path) -> None:
    path = write_dflash_head(tmp_path / "head.gguf", target.model.path, layers=TAPS, size=32)
    with HeadModel(path) as model, DFlashContext(model, target, kv_type=KVType.Q8_0) as head:
        assert np.isfinite(head.draft_parallel(IDS[1:], features(target)[:-1], 7)).all()


def test_what_can_not_be_drafted_is_refused_not_aborted_on(target: Context, head: DFlashContext) -> None:
    rows = features(target)
    for tokens, states, count in (
        (IDS[1:3], rows[:1], 3),
        (IDS[1:3], rows[:2, :-1], 3),
        ([300], rows[:1], 3),
        ([-1], rows[:1], 3),
        (IDS[1:3], rows[:2], 0),
        (IDS[1:3], rows[:2], 8),
        ([], rows[:0], 3),
    ):
        with pytest.raises(LlamaError):
            head.draft_parallel(tokens, states, count)
    with pytest.raises(LlamaError, match="whole blocks"):
        head.draft(IDS[1:3], rows[:2])
    assert head.tokens == []
    assert np.isfinite(head.draft_parallel(IDS[1:], rows[:-1], 7)).all()


def test_a_block_that_the_context_has_no_room_for_is_refused(target: Context, head: DFlashContext) -> None:
    full = [*IDS, *IDS][:64]
    rows = np.concatenate([features(target)] * 2)[:64]
    head.read(full[1:57], rows[:56])
    assert head.draft_parallel(full[57:58], rows[56:57], 6).shape[0] == 6
    with pytest.raises(ContextFull):
        head.draft_parallel(full[58:59], rows[57:58], 6)


def test_a_pass_that_fails_leaves_the_cache_as_it_was(
    target: Context, head: DFlashContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = features(target)
    head.read(IDS[1:20], rows[:19])
    for after, read in ((0, 20), (1, 30)):
        with monkeypatch.context() as patch:
            patch.setattr(head, "_api", FailingApi(head._api, after))
            with pytest.raises(DecodeFailed, match="status -3"):
                head.draft_parallel(IDS[20:30], rows[19:29], 4)
        assert head.tokens == IDS[1:read]
        assert head.truncate(19)
    found = head.draft_parallel(IDS[20:], rows[19:-1], 5).copy()
    assert head.truncate(0)
    np.testing.assert_array_equal(head.draft_parallel(IDS[1:], rows[:-1], 5), found)


class FailingApi:
    """llama.cpp, whose passes are made and, after some that are not, called failed."""

    def __init__(self, api: Any, after: int) -> None:
        self._api = api
        self._passes = iter(range(-after, 100))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def llama_decode(self, handle: Any, batch: Any) -> int:
        status = int(self._api.llama_decode(handle, batch))
        return status if next(self._passes) < 0 else -3


@pytest.mark.parametrize("mask", [None, 286])
def test_without_a_mask_there_is_nothing_to_draft_with(target: Context, tmp_path: Path, mask: int | None) -> None:
    with (
        HeadModel(written(target, tmp_path, mask_token=mask)) as model,
        pytest.raises(LlamaError, match="names no mask"),
    ):
        DFlashContext(model, target)
