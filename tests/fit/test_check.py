"""One door for both ways of knowing: exact where llama.cpp answers, an estimate elsewhere, never a mixture."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.method import Method
from specchat.engine.settings import LONGEST_CHOSEN_DRAFT, EngineSettings
from specchat.fit import check as check_module
from specchat.fit.check import Check, as_loaded, request_for
from specchat.fit.dimensions import Shape
from specchat.fit.exact import ExactMeasure, FitUnavailable
from specchat.fit.head_rows import heads_supported
from specchat.fit.memory import Card
from specchat.fit.pairs import NO_DRAFT, Pair, others_than, pair_of
from specchat.fit.verdict import Verdict
from specchat.llama import medusa_file
from specchat.llama.context_params import KVType

ANY = Path("any.gguf")
GIB = 1 << 30


def settings(**changes: Any) -> EngineSettings:
    return EngineSettings(target=ANY, **{"method": Method.AUTO, "context": 512, **changes})


def test_a_request_asks_for_what_the_engine_asks_for() -> None:
    asked = request_for(settings(kv_type=KVType.Q8_0, gpu_layers=20), n_ctx_train=4096, on_device=True)
    assert (asked.context, asked.kv_type, asked.draft_kv_type) == (512, KVType.Q8_0, KVType.F16)
    assert (asked.n_outputs_max, asked.n_ubatch, asked.draft_ubatch) == (LONGEST_CHOSEN_DRAFT + 1, 512, 128)
    assert (asked.gpu_layers, asked.on_device, asked.flash_attention) == (20, True, True)
    assert asked.n_rs_seq == 8


def test_without_a_context_the_engine_s_own_choice_is_checked() -> None:
    unsaid = settings(context=None)
    assert request_for(unsaid, n_ctx_train=2048, on_device=False).context == 2048
    assert request_for(unsaid, n_ctx_train=131_072, on_device=False).context == 8192


def test_plain_decoding_needs_one_row_and_no_snapshots() -> None:
    asked = request_for(settings(method=Method.NONE), n_ctx_train=2048, on_device=False)
    assert (asked.n_outputs_max, asked.n_rs_seq, asked.flash_attention) == (1, 0, False)


@pytest.mark.demo
def test_a_file_that_is_here_is_measured_and_a_planned_card_is_estimated(demo: Path) -> None:
    with Check() as check:
        here = check.judge(Pair("demo", demo), settings())
        assert here.demand.exact == (here.memory.on_device == check._devices().offloads)
        assert here.demand.exact
    with Check(8 * GIB) as check:
        card = check.judge(Pair("demo", demo), settings())
        assert card.demand.exact == check._devices().offloads
        assert card.demand.on_device
        assert card.memory.planned


def judged(pair: Pair, **changes: Any) -> Verdict:
    with Check(24 * GIB) as check:
        return check.judge(pair, settings(context=32_768, **changes))


def test_a_head_in_the_file_is_counted_unless_another_method_is_chosen() -> None:
    pair = pair_of(Catalogue().find("qwen3.6-27b-mtp"), Catalogue())
    assert pair.draft is None
    headed, plain = judged(pair), judged(pair, method=Method.SUFFIX)
    assert headed.demand.draft is not None
    assert (headed.demand.head, plain.demand.head, plain.demand.draft) == (HeadKind.MTP, None, None)
    # Layers that predict further tokens are counted by --gpu-layers, loaded or not.
    assert judged(pair, gpu_layers=66).demand == headed.demand


def test_a_head_whose_header_is_not_at_hand_is_counted_by_its_file() -> None:
    for name, size in (("gpt-oss-20b", 937_560_064), ("qwen3.6-27b", 1_290_881_632)):
        demand = judged(pair_of(Catalogue().find(name), Catalogue())).demand
        assert demand.head is HeadKind.EAGLE
        assert demand.draft is not None
        assert demand.draft.device.weights == size


def test_where_heads_can_not_be_used_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Check, "heads", False)
    for name in ("qwen3.6-27b-mtp", "gpt-oss-20b"):
        demand = judged(pair_of(Catalogue().find(name), Catalogue())).demand
        assert (demand.head, demand.draft) == (None, None)


def test_medusa_heads_are_counted_where_other_heads_can_not_be_used(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "medusa.gguf"
    writer = gguf.GGUFWriter(path, medusa_file.ARCHITECTURE)
    writer.add_tensor(medusa_file.SHARED_OUTPUT, np.zeros((8, 8), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    pair = Pair("tiny", tiny, path)
    assert as_loaded(pair, settings(), heads=lambda: False) == (pair, HeadKind.MEDUSA)


def test_a_model_too_large_for_the_card_is_proposed_without_its_head() -> None:
    with Check(17 * GIB) as check:
        pair = pair_of(Catalogue().find("qwen3.6-27b-mtp"), Catalogue())
        verdict = check.judge(pair, settings(context=8192))
    assert not verdict.fits
    options = [fix.options for fix in verdict.fixes]
    assert ("--method", "suffix") in options
    # Its cache is one layer's: nothing to gain.
    assert ("--draft-kv", "q8_0") not in options


@pytest.mark.demo
def test_the_probe_says_whether_this_build_can_use_heads() -> None:
    with Check() as check:
        assert check.heads is heads_supported()


@pytest.mark.demo
def test_a_probe_that_dies_in_the_middle_leaves_one_estimate_and_no_mixture(
    demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = 0
    real = ExactMeasure.measure

    def dying(self: ExactMeasure, *arguments: Any) -> Any:
        nonlocal answered
        answered += 1
        if answered == 2:
            os.kill(self._process.pid, signal.SIGKILL)
        return real(self, *arguments)

    monkeypatch.setattr(ExactMeasure, "measure", dying)
    with Check() as check:
        verdict = check.judge(Pair("demo", demo), settings())
    assert answered == 2
    assert not verdict.demand.exact
    assert verdict.fits


@pytest.mark.demo
def test_where_no_probe_can_start_everything_is_estimated(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> ExactMeasure:
        raise FitUnavailable("no")

    monkeypatch.setattr(check_module, "ExactMeasure", refuse)
    with Check() as check:
        assert not check.judge(Pair("demo", demo), settings()).demand.exact
        assert check.idle_card is None


def test_a_model_that_is_not_here_starts_no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> ExactMeasure:
        raise AssertionError

    monkeypatch.setattr(check_module, "ExactMeasure", never)
    catalogue = Catalogue()
    with Check(24 * GIB) as check:
        entry = catalogue.find("qwen3-32b")
        pair = pair_of(entry, catalogue)
        verdict = check.judge(pair, settings(context=16_384), others=others_than(entry, catalogue))
    assert "qwen3-14b" in {fix.model for fix in verdict.fixes}


def test_a_card_that_the_build_can_not_use_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_module, "nvidia_cards", lambda: {"0000:01:00.0": Card("RTX 4090", GIB, GIB, False)})
    with Check() as check:
        if check._devices().offloads:
            pytest.skip("this build computes on a GPU")
        assert check.idle_card == "RTX 4090"
        assert not check.memory.on_device


def test_neither_way_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An architecture that no formula knows, for a card that is not here."""
    from tests.tiny_model import write_model

    path = write_model(tmp_path / "odd.gguf", architecture="deepseek4")
    with Check(8 * GIB) as check, pytest.raises(FitUnavailable, match=r"odd.*can't be told"):
        check.judge(Pair("odd", path), settings())


def test_an_entry_s_own_draft_is_counted_and_another_or_none_on_request() -> None:
    catalogue = Catalogue()
    entry = catalogue.find("qwen3-14b")
    own = pair_of(entry, catalogue)
    assert isinstance(own.target, Shape)
    assert isinstance(own.draft, Shape)
    other = pair_of(entry, catalogue, "qwen3-1.7b")
    assert isinstance(other.draft, Shape)
    assert other.draft.width > own.draft.width
    assert pair_of(entry, catalogue, NO_DRAFT).draft is None


def test_a_file_that_is_neither_here_nor_known_says_how_to_get_it() -> None:
    catalogue = Catalogue()
    with pytest.raises(ModelUnavailable):
        pair_of(catalogue.find("hf:nobody/nothing-GGUF:unknown.gguf"), catalogue)


def test_others_come_by_rank_and_never_the_model_itself() -> None:
    catalogue = Catalogue()
    for heads in (True, False):
        ids = [pair.id for pair in others_than(catalogue.find("qwen3-14b"), catalogue, heads=heads)]
        ranked = [entry.id for entry in catalogue.by_preference(heads=heads)]
        assert ids == [name for name in ranked if name in ids]
        assert "qwen3-14b" not in ids
        assert (ids[0] == "qwen3.6-27b-mtp") is heads
        assert {"qwen3-8b", "gpt-oss-20b"} <= set(ids)
