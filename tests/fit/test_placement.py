"""Which bytes go to the GPU, checked against public logs of CUDA builds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.fit.placement import Weights
from specchat.fit.shape import shape_of
from specchat.llama.gguf import read_header
from tests.fit import synthetic

MIB = 1 << 20


@pytest.fixture(scope="module")
def large_hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.large_hybrid(tmp_path_factory.mktemp("large") / "27b.gguf")


def test_the_embedding_of_a_27b_stays_on_the_host_as_a_cuda_log_says(large_hybrid: Path) -> None:
    """`CPU_Mapped model buffer size = 682.03 MiB`: 248,320 × 5,120 in Q4_K."""
    weights = shape_of(read_header(large_hybrid)).weights
    assert weights.on_host(-1) / MIB == pytest.approx(682.03, abs=0.005)


def test_an_untied_output_is_on_the_gpu_only(tmp_path: Path) -> None:
    header = read_header(synthetic.dense(tmp_path / "untied.gguf"))
    weights = shape_of(header).weights
    everything = sum(place.n_bytes for place in header.tensors.values())
    assert weights.on_device(-1) == everything - header.tensors["token_embd.weight"].n_bytes
    assert weights.on_device(-1) + weights.on_host(-1) == everything


def test_a_tied_embedding_is_on_both_sides(tmp_path: Path) -> None:
    header = read_header(synthetic.tied_llama(tmp_path / "tied.gguf"))
    weights = shape_of(header).weights
    everything = sum(place.n_bytes for place in header.tensors.values())
    assert weights.on_device(-1) == everything
    assert weights.on_host(-1) == header.tensors["token_embd.weight"].n_bytes
    assert weights.on_host(0) == everything


def test_layers_that_predict_further_tokens_are_counted_apart(tmp_path: Path) -> None:
    header = read_header(synthetic.hybrid(tmp_path / "mtp.gguf", trunk=8, nextn=1))
    shape = shape_of(header)
    head = sum(place.n_bytes for name, place in header.tensors.items() if name.startswith("blk.8."))
    assert shape.nextn is not None
    assert sum(shape.nextn.weights) == head > 0
    everything = sum(place.n_bytes for place in header.tensors.values())
    assert shape.weights.total == everything - head
    # They are layers all the same to --gpu-layers.
    assert len(shape.weights.layers) == 9


WEIGHTS = Weights(input=1000, layers=(10, 20, 30), output=400)


@pytest.mark.parametrize(
    ("gpu_layers", "device"),
    [(0, 0), (1, 400), (2, 430), (3, 450), (4, 460), (99, 460), (-1, 460)],
)
def test_the_output_goes_to_the_gpu_first_and_then_the_last_layers(gpu_layers: int, device: int) -> None:
    assert WEIGHTS.on_device(gpu_layers) == device
    assert WEIGHTS.on_device(gpu_layers) + WEIGHTS.on_host(gpu_layers) == WEIGHTS.total


def test_a_tied_output_costs_the_gpu_a_copy_with_its_first_layer() -> None:
    tied = replace(WEIGHTS, output=4, tied=900)
    assert tied.on_device(1) == 904
    assert tied.on_host(1) == 1060
    assert tied.on_host(0) == 1064


def test_a_layers_cache_lies_beside_its_weights() -> None:
    assert [WEIGHTS.places_layer(layer, 2) for layer in range(3)] == [False, False, True]
    assert all(WEIGHTS.places_layer(layer, -1) for layer in range(3))
    assert not any(WEIGHTS.places_layer(layer, 0) for layer in range(3))
