"""What Gemma 4's assistants take, told before they are here: held to llama.cpp's own allocator and to public files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
from specchat.fit.dimensions import Shape
from specchat.fit.exact import ExactMeasure
from specchat.fit.formula import demand_of_shapes
from specchat.fit.head_shapes import supposed_assistant
from specchat.fit.pairs import Pair, pair_of, shape_here
from specchat.fit.request import FitRequest
from specchat.llama.context_params import KVType
from tests.assistant_models import write_assistant, write_gemma4
from tests.fit.synthetic_head import GEMMAS, Gemma
from tests.fit.test_heads import REQUESTS, asked, compare, kind, really_held, told

MIB = 1 << 20
ENTRIES = {f"gemma-4-{name}": gemma for name, gemma in GEMMAS.items()}
SMALL = {
    "of a wide model": Gemma(8192, 6, 512, vocabulary=8192),
    "of a narrow model": Gemma(1536, 6, 512, heads=8, vocabulary=8192),
    "small": Gemma(1536, 6, 512, heads=8, vocabulary=8192, own_width=256, own_inner=2048),
    "of two layers": Gemma(3840, 6, 512, vocabulary=8192, own_layers=2, own_inner=1024),
    "of many heads": Gemma(3840, 6, 512, heads=32, vocabulary=65_536, window=512),
}
MORE = {
    # The cells are the target's: their type counts, and how many rows it reads a pass.
    "the target quantised": FitRequest(4096, kv_type=KVType.Q8_0, n_outputs_max=16),
    "drafts quantised": FitRequest(4096, draft_kv_type=KVType.Q8_0, flash_attention=True, n_outputs_max=16),
    "short passes": FitRequest(8192, flash_attention=True, n_ubatch=128, n_outputs_max=16),
}
ON_A_CARD = FitRequest(8192, flash_attention=True, n_outputs_max=8, on_device=True)


@pytest.fixture(scope="module")
def probe() -> Iterator[ExactMeasure]:
    with ExactMeasure() as exact:
        if exact.devices().offloads:
            pytest.skip("the bounds were measured on a CPU build")
        yield exact


@pytest.mark.parametrize("name", [*SMALL, *GEMMAS])
def test_from_a_header_an_assistant_is_told_to_the_byte_but_for_its_buffers(
    probe: ExactMeasure, tmp_path: Path, name: str
) -> None:
    gemma = {**SMALL, **GEMMAS}[name]
    target, head = gemma.model(tmp_path / "gemma.gguf"), gemma.assistant(tmp_path / "assistant.gguf")
    for request in (*REQUESTS.values(), *MORE.values()):
        exact = probe.measure(target, head, request, HeadKind.MTP)
        estimated = demand_of_shapes(shape_here(target), shape_here(head), request, HeadKind.MTP)
        compare(exact, estimated)
        assert estimated.draft is not None
        # It looks at the target's cells, and gives states as wide as the target's.
        assert estimated.draft.host.cache == 0
        assert estimated.draft.host.rows == 128 * gemma.width * 4


def test_the_cells_of_a_window_are_as_many_as_the_target_has(probe: ExactMeasure, tmp_path: Path) -> None:
    gemma = SMALL["of a narrow model"]
    target, head = gemma.model(tmp_path / "gemma.gguf"), gemma.assistant(tmp_path / "assistant.gguf")
    real: list[int] = []
    estimated: list[int] = []
    for rows in (512, 1024):
        request = FitRequest(8192, flash_attention=True, n_ubatch=rows, n_outputs_max=16)
        for found, demand in (
            (real, probe.measure(target, head, request, HeadKind.MTP)),
            (estimated, demand_of_shapes(shape_here(target), shape_here(head), request, HeadKind.MTP)),
        ):
            assert demand.draft is not None
            found.append(demand.draft.host.compute)
    # For each of 128 rows an f16 says whether it sees a cell.
    assert estimated[1] - estimated[0] == real[1] - real[0] == 512 * 128 * 2


def test_what_is_told_of_an_assistant_is_what_a_real_load_takes(probe: ExactMeasure, tmp_path: Path) -> None:
    target, head = write_gemma4(tmp_path / "gemma4.gguf"), write_assistant(tmp_path / "assistant.gguf")
    real = really_held(target, head, 512)
    estimated = demand_of_shapes(shape_here(target), shape_here(head), asked(512), HeadKind.MTP)
    ours, theirs = told(estimated)
    assert (ours.weights, ours.cache) == (real["target"].weights, real["target"].cache)
    # The last tensor is a single number: counted with its padding to 32 bytes, mapped without.
    assert (theirs.weights, theirs.cache) == (real["head"].weights + 28, real["head"].cache)
    assert theirs.cache == 0
    # Buffers of so small a model are mostly odds and ends.
    assert 0.8 <= theirs.compute / real["head"].compute <= 1.3


def known(name: str) -> tuple[Shape, Shape]:
    """Target and assistant of a catalogue entry, as far as they are known without their files."""
    pair = pair_of(Catalogue().find(name), Catalogue())
    assert isinstance(pair.target, Shape)
    assert isinstance(pair.draft, Shape)
    return pair.target, pair.draft


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_known_of_the_catalogue_s_files_is_what_their_headers_say(tmp_path: Path, name: str) -> None:
    gemma, (target, head) = ENTRIES[name], known(name)
    paths = gemma.model(tmp_path / "gemma.gguf"), gemma.assistant(tmp_path / "assistant.gguf")
    for shape, read in zip((target, head), map(shape_here, paths), strict=True):
        assert replace(read, weights=shape.weights, trained_context=shape.trained_context) == shape
    # Of an assistant the quantisation is known too: its tensors add up to the file without its header.
    assert head.weights.on_device(-1) == pytest.approx(shape_here(paths[1]).weights.on_device(-1), abs=256)


@pytest.mark.parametrize(("name", "mib"), [("gemma-4-12b", 445), ("gemma-4-26b-a4b", 441), ("gemma-4-31b", 497)])
def test_an_assistant_costs_a_card_its_weights_and_a_small_buffer(name: str, mib: int) -> None:
    target, head = known(name)
    demand = demand_of_shapes(target, head, ON_A_CARD, HeadKind.MTP)
    plain = demand_of_shapes(target, None, ON_A_CARD)
    assert (demand.total - plain.total) / MIB == pytest.approx(mib, abs=1)
    assert demand.draft is not None
    assert demand.draft.device.cache == demand.draft.host.cache == 0
    # The embedding, which is the output matrix too, lies on both sides.
    assert demand.draft.host.weights == 262_144 * 1024 // 32 * 34


def test_each_layer_on_the_card_moves_its_weights_there(tmp_path: Path) -> None:
    gemma = SMALL["of a narrow model"]
    target, head = shape_here(gemma.model(tmp_path / "gemma.gguf")), shape_here(gemma.assistant(tmp_path / "head.gguf"))
    weights = []
    for layers in range(6):
        demand = demand_of_shapes(target, head, replace(ON_A_CARD, gpu_layers=layers), HeadKind.MTP)
        assert demand.draft is not None
        weights.append(demand.draft.device.weights)
    assert weights[0] == 0
    assert weights == sorted(set(weights))
    # The projection from the target's width goes with the first layer, like what scales the positions.
    first = 2 * 1536 * 1024 // 32 * 34 + 256 * 4
    assert weights[5] - weights[4] == weights[4] - weights[3] + first


def test_a_quantised_cache_is_unpacked_one_layer_at_a_time_and_of_a_window_no_more_than_its_cells() -> None:
    target, head = known("gemma-4-12b")
    plain, quantised = (
        demand_of_shapes(target, head, replace(ON_A_CARD, context=131_072, kv_type=type_), HeadKind.MTP)
        for type_ in (KVType.F16, KVType.Q8_0)
    )
    # One KV head of 512, keys and values, in f16.
    unpacked = 131_072 * 2 * 512 * 2
    assert quantised.target.device.compute - plain.target.device.compute == unpacked
    assert plain.draft is not None
    assert quantised.draft is not None
    # And the matrices that turn what is quantised.
    assert quantised.draft.device.compute - plain.draft.device.compute == pytest.approx(unpacked, rel=0.02)


def test_an_assistant_of_an_unknown_header_is_taken_for_one_like_the_known_ones() -> None:
    target, head = known("gemma-4-12b")
    supposed = supposed_assistant(target, 465_109_248)
    there, known_one = (demand_of_shapes(target, x, ON_A_CARD, HeadKind.MTP) for x in (supposed, head))
    assert there.draft is not None
    assert known_one.draft is not None
    assert there.draft.device.weights == 465_109_248
    assert replace(there.draft.device, weights=0) == replace(known_one.draft.device, weights=0)
    assert there.draft.host.rows == known_one.draft.host.rows


OWN = """
[mine]
target = {{ repo = "user/models", file = "{target}" }}
draft = {{ repo = "user/heads", file = "head.gguf", size = 500000000 }}
drafter = "mtp"
"""


def own(folder: Path, target: str) -> Pair:
    path = folder / "models.toml"
    path.write_text(OWN.format(target=target), encoding="utf-8")
    models = Catalogue(path)
    return pair_of(models.find("mine"), models)


def test_only_of_gemma_s_heads_is_the_shape_supposed(tmp_path: Path) -> None:
    pair = own(tmp_path, "gemma-4-12b-it-Q4_K_M.gguf")
    assert isinstance(pair.draft, Shape)
    assert pair.draft.weights.on_device(-1) == 500_000_000
    with pytest.raises(ModelUnavailable, match=r"head\.gguf"):
        own(tmp_path, "Qwen3-8B-Q4_K_M.gguf")


def test_it_is_told_for_the_head_that_it_is(tmp_path: Path) -> None:
    target, head = write_gemma4(tmp_path / "gemma4.gguf"), write_assistant(tmp_path / "assistant.gguf")
    assert kind(target, head) is kind(shape_here(target), shape_here(head)) is HeadKind.MTP
    assert kind(*known("gemma-4-31b")) is HeadKind.MTP
