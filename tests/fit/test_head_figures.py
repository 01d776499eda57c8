"""What the heads of public models take, held to public logs and to the sizes of their files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.head_kind import HeadKind
from specchat.fit.demand import Bytes
from specchat.fit.dimensions import Shape
from specchat.fit.exact import ExactMeasure
from specchat.fit.formula import demand_of_shapes
from specchat.fit.head_shapes import supposed_eagle
from specchat.fit.known_shapes import known_shape
from specchat.fit.request import FitRequest
from specchat.llama.context_params import KVType
from tests.fit import synthetic

MIB = 1 << 20
QWEN_27B_MTP = "a7cbd3ecc0e3f9b333edee61ae66bc87ed713c5d49587a8355814722ed329e0f"
LOGGED = FitRequest(32768, flash_attention=True, n_outputs_max=4, n_rs_seq=3, draft_ubatch=512, on_device=True)
"""What llama-server asked for in the public log of Qwen3.6-27B: its head reads as many rows a pass as the target."""


def known_27b() -> Shape:
    shape = known_shape(QWEN_27B_MTP)
    assert shape is not None
    return shape


def planned_27b(request: FitRequest) -> tuple[Bytes, Bytes]:
    demand = demand_of_shapes(known_27b(), None, request, HeadKind.MTP)
    assert demand.draft is not None
    assert demand.head is HeadKind.MTP
    return demand.target.device, demand.draft.device


@pytest.mark.parametrize(("part", "mib"), [("weights", 276), ("cache", 128), ("compute", 130), ("rollback", 449)])
def test_each_part_of_the_mtp_side_of_qwen3_6_27b_is_what_the_public_log_says(part: str, mib: int) -> None:
    """research/vram-models.md 1.5, at 32k with three drafted tokens."""
    target, head = planned_27b(LOGGED)
    assert getattr(target if part == "rollback" else head, part) / MIB == pytest.approx(mib, rel=0.03)


def test_the_mtp_side_of_qwen3_6_27b_takes_983_mib_at_32k() -> None:
    target, head = planned_27b(LOGGED)
    assert (head.total + target.rollback + target.rows) / MIB == pytest.approx(983, rel=0.05)


def test_specchat_s_smaller_passes_need_a_quarter_of_that_buffer() -> None:
    ours = planned_27b(replace(LOGGED, draft_ubatch=FitRequest(1).draft_ubatch))[1]
    assert ours.compute / MIB == pytest.approx(32.5, rel=0.03)


def test_the_header_of_the_27b_and_what_is_known_of_it_agree(tmp_path: Path) -> None:
    path = synthetic.large_hybrid(tmp_path / "27b.gguf", nextn=1)
    request = replace(LOGGED, draft_ubatch=FitRequest(1).draft_ubatch, on_device=False)
    with ExactMeasure() as probe:
        if probe.devices().offloads:
            pytest.skip("the figures are a CPU build's")
        exact = probe.measure(path, None, request, HeadKind.MTP)
    known = demand_of_shapes(known_27b(), None, request, HeadKind.MTP)
    assert exact.draft is not None
    assert known.draft is not None
    assert known.draft.host.cache == exact.draft.host.cache
    assert known.target.host.rollback == exact.target.host.rollback
    assert known.draft.host.compute == pytest.approx(exact.draft.host.compute, rel=0.03)
    # The log's own figure, from the same allocator on a card, is for four times as many rows.
    assert 4 * exact.draft.host.compute / MIB == pytest.approx(130, abs=0.1)


def test_without_the_head_none_of_it_is_counted() -> None:
    plain = demand_of_shapes(known_27b(), None, LOGGED)
    headed = demand_of_shapes(known_27b(), None, LOGGED, HeadKind.MTP)
    assert plain.draft is None
    assert plain.head is None
    assert plain.target.device == headed.target.device
    assert plain.target.host.rows == 0


def test_of_a_head_on_the_host_with_some_layers_on_a_card_each_side_is_counted() -> None:
    request = replace(LOGGED, gpu_layers=1)
    demand = demand_of_shapes(known_27b(), None, request, HeadKind.MTP)
    assert demand.draft is not None
    assert demand.draft.device.weights == demand.draft.device.cache == 0
    assert demand.draft.host.cache == 128 * MIB
    two = demand_of_shapes(known_27b(), None, replace(request, gpu_layers=2), HeadKind.MTP)
    assert two.draft is not None
    assert two.draft.device.cache == 128 * MIB


def test_tapped_layers_lie_on_the_card_and_what_is_handed_out_on_the_host() -> None:
    head = supposed_eagle(known_27b(), 1_290_881_632)
    demand = demand_of_shapes(known_27b(), head, LOGGED, HeadKind.EAGLE)
    assert demand.target.device.rows == demand.target.host.rows == 3 * 5120 * 512 * 4
    assert demand.draft is not None
    assert demand.draft.device.weights == 1_290_881_632
    # One layer with 4 KV heads of 256.
    assert demand.draft.device.cache == 32768 * 4096


def test_a_head_s_cache_is_counted_in_the_type_asked_for_drafts() -> None:
    plain, quantised = (planned_27b(replace(LOGGED, draft_kv_type=kind)) for kind in (KVType.F16, KVType.Q8_0))
    assert quantised[0] == plain[0]
    assert quantised[1].cache == plain[1].cache // 64 * 34
    # CUDA's kernels unpack the one layer's keys and values into f16 first.
    assert quantised[1].compute == plain[1].compute + plain[1].cache


def test_a_head_of_an_unknown_header_is_taken_for_a_layer_like_the_target_s() -> None:
    target = known_shape("gpt-oss-20b-mxfp4.gguf")
    assert target is not None
    head = supposed_eagle(target, 937_560_064)
    assert (head.layers[0].keys, head.width, head.vocabulary) == (512, 2880, 201_088)
    assert head.weights.on_device(-1) == 937_560_064
