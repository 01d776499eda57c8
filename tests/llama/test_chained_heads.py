"""NextN layers that take turns: each reads its own keys and values, whatever the others left in the same cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.llama import chained_heads, hidden
from specchat.llama.chained_heads import ChainedHeadsContext
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import DecodeFailed, LlamaError
from specchat.llama.hidden import HiddenStatesMissing, States
from specchat.llama.library import library
from specchat.llama.model import Model
from tests.chained_models import write_chained_model

IDS = [1, *(3 + 11 * i % 250 for i in range(300))]
DRAFTED = [41, 7, 99]
Found = tuple[NDArray[np.float32], States]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Context]:
    path = write_chained_model(tmp_path_factory.mktemp("chained") / "target.gguf")
    params = ContextParams(n_ctx=400, n_outputs_max=8, threads=1, nextn=True)
    with Model(path, load_mtp=True) as model, Context(model, params) as context:
        context.prefill(IDS)
        yield context


@pytest.fixture
def head(target: Context) -> Iterator[ChainedHeadsContext]:
    with ChainedHeadsContext(target.model, target) as context:
        yield context


def before(target: Context) -> States:
    """The target's state before each token of the text."""
    rows = target.nextn_rows()
    return np.concatenate([np.zeros((1, rows.shape[1]), np.float32), rows[:-1]])


def alone(target: Context, layer: int, tokens: Sequence[int], states: States) -> Found:
    """What one layer finds after these pairs in a cache that no other layer has ever used."""
    from llama_cpp import llama_cpp_ext

    with ChainedHeadsContext(target.model, target) as fresh:
        llama_cpp_ext.llama_set_nextn_layer_offset(fresh.handle, layer)
        for start in range(0, len(tokens), fresh.n_batch):
            part = slice(start, start + fresh.n_batch)
            fresh._pass(tokens[part], states[part], start, 1)
        return fresh._logits(1)[0].copy(), fresh.nextn_rows().copy()


def chain(head: ChainedHeadsContext, tokens: Sequence[int], states: States, drafted: Sequence[int]) -> list[Found]:
    """Logits and states after `tokens` and after each of `drafted`."""
    found: list[Found] = []
    for token in (None, *drafted):
        row, state = head.draft(tokens, states) if token is None else head.draft([token], found[-1][1])
        found.append((row.copy(), state.copy()))
    return found


def expected(target: Context, n: int, drafted: Sequence[int]) -> list[Found]:
    """The same from single layers: the first reads the text of `n` tokens, each further one all drafted before too."""
    tokens, states, found = IDS[:n], before(target)[:n], []
    for layer, token in enumerate([*drafted, 0]):
        found.append(alone(target, layer, tokens, states))
        tokens, states = [*tokens, token], np.concatenate([states, found[-1][1]])
    return found


def same(found: list[Found], wanted: list[Found]) -> None:
    assert len(found) == len(wanted)
    for (row, state), (other_row, other_state) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(row, other_row, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(state, other_state, rtol=1e-4, atol=1e-4)


def test_each_layer_drafts_from_what_it_has_read_itself(target: Context, head: ChainedHeadsContext) -> None:
    states = before(target)
    head.read(IDS[:20], states[:20])
    same(chain(head, IDS[20:40], states[20:40], DRAFTED[:2]), expected(target, 40, DRAFTED[:2]))
    wanted = expected(target, 40, DRAFTED[:2])
    # The layers are different ones.
    assert not np.allclose(wanted[0][0], wanted[1][0], atol=0.5)
    assert not np.allclose(wanted[1][0], wanted[2][0], atol=0.5)


@pytest.mark.parametrize("drafted", [0, 1, 2])
def test_after_a_draft_of_any_length_all_layers_have_read_the_text(
    target: Context, head: ChainedHeadsContext, drafted: int
) -> None:
    states, at = before(target), 0
    for n in (11, 12, 20, 29):
        chain(head, IDS[at:n], states[at:n], DRAFTED[:drafted])
        assert head.truncate(n)
        assert head.tokens == IDS[:n]
        # The newest token is read again with what follows it.
        assert head.truncate(n - 1)
        at = n - 1
    same(chain(head, IDS[at:33], states[at:33], DRAFTED[:2]), expected(target, 33, DRAFTED[:2]))


def test_a_long_text_is_read_in_pieces_and_can_be_gone_back_in(target: Context, head: ChainedHeadsContext) -> None:
    # Past the sliding window of the layers, and past what a pass takes.
    states = before(target)
    same(chain(head, IDS[:290], states[:290], DRAFTED[:2]), expected(target, 290, DRAFTED[:2]))
    assert head.truncate(290)
    assert head.truncate(30)
    same(chain(head, IDS[30:33], states[30:33], DRAFTED[:2]), expected(target, 33, DRAFTED[:2]))


def test_a_head_drafts_as_many_tokens_as_it_has_layers(target: Context, head: ChainedHeadsContext) -> None:
    states = before(target)
    assert head.most_drafted == 3
    with pytest.raises(LlamaError, match="3 layers"):
        chain(head, IDS[:9], states[:9], DRAFTED)
    assert head.truncate(9)
    same(chain(head, IDS[9:11], states[9:11], DRAFTED[:2]), expected(target, 11, DRAFTED[:2]))


def test_what_is_no_pair_is_refused_not_aborted_on(target: Context, head: ChainedHeadsContext) -> None:
    states = before(target)
    head.draft(IDS[:9], states[:9])
    for tokens, rows in (
        ([300], states[:1]),
        ([-1], states[:1]),
        ([3], states[:2]),
        ([3], states[:1, :-1]),
        ([], states[:0]),
    ):
        with pytest.raises(LlamaError):
            head.draft(tokens, rows)
    assert head.truncate(9)
    assert head.tokens == IDS[:9]


def test_a_pass_that_fails_leaves_what_all_layers_have_read(
    target: Context, head: ChainedHeadsContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = before(target)
    head.read(IDS[:9], states[:9])
    for passes in range(6):
        with monkeypatch.context() as patch:
            patch.setattr(head, "_api", FailingApi(head._api, passes))
            with pytest.raises(DecodeFailed, match="status -3"):
                draft_and_read_on(head, states)
        head.truncate(9)
        assert head.tokens == IDS[:9]
    same(chain(head, IDS[9:11], states[9:11], DRAFTED[:2]), expected(target, 11, DRAFTED[:2]))


def draft_and_read_on(head: ChainedHeadsContext, states: States) -> None:
    """In six passes: two that draft, one of the layer that the draft did not come to, and three of what follows."""
    head.draft(IDS[9:12], states[9:12])
    head.draft([5], states[:1])
    head.truncate(12)
    head.read(IDS[12:14], states[12:14])


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


def test_a_build_that_can_not_choose_the_layer_is_said_to(target: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hidden._C_NAMES, "llama_set_nextn_layer_offset", ())
    monkeypatch.setattr(chained_heads, "nextn_selector", hidden.nextn_selector.__wrapped__)
    real = library().api._lib
    monkeypatch.setattr(library().api, "_lib", Without(real, "llama_set_nextn_layer_offset"))
    with pytest.raises(HiddenStatesMissing, match="the same without"):
        ChainedHeadsContext(target.model, target)


class Without:
    """A library without one of its functions."""

    def __init__(self, exported: Any, name: str) -> None:
        self._exported, self._name = exported, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._exported, name)

    def __getitem__(self, name: str) -> Any:
        return self._exported[name]
