"""What a trained head takes: to the byte what a real load takes, from headers within bounds, and as public logs say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.method import Method
from specchat.engine.heads import planned_head
from specchat.engine.settings import EngineSettings
from specchat.fit.check import request_for
from specchat.fit.demand import Bytes, Demand
from specchat.fit.dimensions import Shape, ShapeUnknown
from specchat.fit.exact import ExactMeasure
from specchat.fit.formula import demand_of_shapes
from specchat.fit.heads import head_of
from specchat.fit.pairs import Pair, shape_here
from specchat.fit.request import FitRequest
from specchat.llama import eagle3_file, medusa_file
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError
from tests.assistant_models import write_assistant, write_gemma4
from tests.fit import synthetic
from tests.fit.real_head import settings
from tests.fit.synthetic_head import eagle as eagle_file
from tests.head_models import write_eagle_head, write_hybrid_model, write_nextn_sidecar

COMPUTE_LOW, COMPUTE_HIGH = 0.95, 1.1
"""Bounds of estimated to real compute buffers of heads (measured: 0.977 to 1.091)."""


@pytest.fixture(scope="module")
def probe() -> Iterator[ExactMeasure]:
    with ExactMeasure() as exact:
        if exact.devices().offloads:
            pytest.skip("the bounds were measured on a CPU build")
        yield exact


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("heads")
    return {
        "hybrid": write_hybrid_model(folder / "hybrid.gguf"),
        "sidecar": write_nextn_sidecar(folder / "sidecar.gguf"),
        "without": write_hybrid_model(folder / "without.gguf", nextn=0),
    }


def really_held(target: Path, head: Path | None, context: int) -> dict[str, Bytes]:
    wanted = {"target": str(target), "head": None if head is None else str(head), "context": context}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fit.real_head", json.dumps(wanted)], capture_output=True, text=True, check=True
    )
    return {name: Bytes(*sizes) for name, sizes in json.loads(done.stdout).items()}


def asked(context: int) -> FitRequest:
    """What an engine asks for whose drafts are three tokens long."""
    return request_for(settings(Path("x"), None, context), n_ctx_train=0, on_device=False)


def told(demand: Demand) -> tuple[Bytes, Bytes]:
    """The two contexts as llama.cpp counts them: snapshots are cache to it, and what is handed out isn't counted."""
    assert demand.draft is not None
    ours, theirs = demand.target.host, demand.draft.host
    return Bytes(ours.weights, ours.cache + ours.rollback, ours.compute), replace(theirs, rows=0)


@pytest.mark.parametrize("context", [256, 512])
def test_a_head_in_the_target_s_file_takes_what_a_real_load_takes(
    probe: ExactMeasure, files: dict[str, Path], context: int
) -> None:
    real = really_held(files["hybrid"], None, context)
    demand = probe.measure(files["hybrid"], None, asked(context), HeadKind.MTP)
    ours, theirs = told(demand)
    # One model holds the weights of both.
    assert ours.weights + theirs.weights == real["target"].weights == real["head"].weights
    assert theirs.weights > 0
    assert replace(ours, weights=0) == replace(real["target"], weights=0)
    assert replace(theirs, weights=0) == replace(real["head"], weights=0)
    assert demand.target.host.rollback > 0


def test_a_head_in_a_file_of_its_own_takes_what_a_real_load_takes(probe: ExactMeasure, files: dict[str, Path]) -> None:
    real = really_held(files["without"], files["sidecar"], 512)
    ours, theirs = told(probe.measure(files["without"], files["sidecar"], asked(512), HeadKind.MTP))
    assert (ours, theirs) == (real["target"], real["head"])


def test_a_head_that_shares_the_target_s_cache_takes_what_a_real_load_takes(
    probe: ExactMeasure, tmp_path: Path
) -> None:
    target, head = write_gemma4(tmp_path / "gemma4.gguf"), write_assistant(tmp_path / "assistant.gguf")
    real = really_held(target, head, 512)
    ours, theirs = told(probe.measure(target, head, asked(512), HeadKind.MTP))
    # Its last tensor is a single number: counted with its padding to 32 bytes, mapped without.
    assert theirs.weights == real["head"].weights + 28
    assert (ours, replace(theirs, weights=0)) == (real["target"], replace(real["head"], weights=0))


@pytest.mark.demo
def test_an_eagle_head_and_its_tapped_layers_take_what_a_real_load_takes(
    probe: ExactMeasure, demo: Path, tmp_path: Path
) -> None:
    # The layers that published heads read.
    head = write_eagle_head(tmp_path / "eagle.gguf", demo, draft_vocab=4096, layers=(2, 15, 27))
    real = really_held(demo, head, 2048)
    demand = probe.measure(demo, head, asked(2048), HeadKind.EAGLE)
    ours, theirs = told(demand)
    tapped = eagle3_file.N_TAPS * 576 * 512 * 4
    assert replace(ours, compute=ours.compute + tapped) == real["target"]
    assert theirs == real["head"]
    # In the graph, and as much again for what is handed out.
    assert demand.target.host.rows == 2 * tapped


HYBRIDS: dict[str, dict[str, int]] = {
    "one layer": {},
    "wide": {"width": 2048, "inner": 2048, "heads": 16},
    "two groups": {"kv_heads": 4},
}
EAGLES: dict[str, dict[str, int | bool | None]] = {
    "reduced vocabulary": {},
    "whole vocabulary": {"draft_vocabulary": None},
    "the target's embeddings": {"own_embedding": False},
    "of an 8B": {
        "width": 4096, "target_width": 4096, "heads": 32, "head": 128, "inner": 12288, "vocabulary": 151_936,
        "draft_vocabulary": 32_000,
    },
}  # fmt: skip
REQUESTS = {
    "flash": FitRequest(4096, flash_attention=True, n_outputs_max=16, n_rs_seq=3),
    "long": FitRequest(32768, flash_attention=True, n_outputs_max=16, n_rs_seq=8),
    "plain": FitRequest(1000, n_outputs_max=16, n_rs_seq=3),
    "quantised": FitRequest(4096, kv_type=KVType.Q8_0, draft_kv_type=KVType.Q8_0, n_outputs_max=16),
}


def compare(exact: Demand, estimated: Demand) -> None:
    assert exact.draft is not None
    assert estimated.draft is not None
    for real, said in ((exact.target.host, estimated.target.host), (exact.draft.host, estimated.draft.host)):
        assert replace(said, compute=0) == replace(real, compute=0)
    assert COMPUTE_LOW <= estimated.draft.host.compute / exact.draft.host.compute <= COMPUTE_HIGH


@pytest.mark.parametrize("name", HYBRIDS)
def test_from_a_header_an_mtp_head_is_told_to_the_byte_but_for_its_buffers(
    probe: ExactMeasure, tmp_path: Path, name: str
) -> None:
    path = synthetic.hybrid(tmp_path / "hybrid.gguf", **HYBRIDS[name])  # type: ignore[arg-type]
    for request in REQUESTS.values():
        exact = probe.measure(path, None, request, HeadKind.MTP)
        compare(exact, demand_of_shapes(shape_here(path), None, request, HeadKind.MTP))


@pytest.mark.parametrize("name", EAGLES)
def test_from_a_header_an_eagle_head_is_told_to_the_byte_but_for_its_buffers(
    probe: ExactMeasure, tmp_path: Path, name: str
) -> None:
    target = synthetic.dense(tmp_path / "target.gguf")
    head = eagle_file(tmp_path / "eagle.gguf", **EAGLES[name])  # type: ignore[arg-type]
    for request in REQUESTS.values():
        exact = probe.measure(target, head, request, HeadKind.EAGLE)
        compare(exact, demand_of_shapes(shape_here(target), shape_here(head), request, HeadKind.EAGLE))


def test_a_sidecar_is_told_from_its_header(probe: ExactMeasure, files: dict[str, Path]) -> None:
    exact = probe.measure(files["without"], files["sidecar"], asked(512), HeadKind.MTP)
    shapes = shape_here(files["without"]), shape_here(files["sidecar"])
    compare(exact, demand_of_shapes(*shapes, asked(512), HeadKind.MTP))


def kind(target: Path | Shape, draft: Path | Shape | None, method: Method = Method.AUTO) -> HeadKind | None:
    return head_of(Pair("x", target, draft), EngineSettings(Path("x"), method=method))


def test_which_head_drafts_is_told_by_the_files(files: dict[str, Path], tiny: Path, tmp_path: Path) -> None:
    eagle = eagle_file(tmp_path / "eagle.gguf")
    assert kind(files["hybrid"], None) is kind(shape_here(files["hybrid"]), None) is HeadKind.MTP
    assert kind(files["without"], files["sidecar"]) is kind(files["without"], shape_here(files["sidecar"]))
    assert kind(files["without"], files["sidecar"]) is HeadKind.MTP
    assert kind(tiny, eagle) is kind(tiny, shape_here(eagle)) is HeadKind.EAGLE
    # A whole model drafts as one, whatever else is in its file; and text needs no head.
    assert kind(tiny, files["hybrid"]) is kind(tiny, None) is None
    assert kind(files["hybrid"], None, Method.SUFFIX) is kind(files["hybrid"], None, Method.NONE) is None


@pytest.mark.demo
def test_it_is_the_head_that_the_engine_plans_with(files: dict[str, Path], demo: Path, tmp_path: Path) -> None:
    eagle = write_eagle_head(tmp_path / "eagle.gguf", demo)
    parallel = write_eagle_head(tmp_path / "p-eagle.gguf", demo, mask_token=2)
    assert head_of(Pair("x", demo, parallel), EngineSettings(demo, parallel, Method.AUTO)) is HeadKind.EAGLE
    pairs: list[tuple[Path, Path | None]] = [
        (files["hybrid"], None), (files["without"], None), (files["without"], files["sidecar"]), (demo, eagle),
        (demo, demo), (demo, None),
    ]  # fmt: skip
    for target, draft in pairs:
        settings = EngineSettings(target, draft, Method.AUTO)
        plan = planned_head(settings)
        told = head_of(Pair("x", target, draft), settings)
        assert (plan and plan.method.value) == (told and told.value)


def medusa(path: Path) -> Path:
    writer = gguf.GGUFWriter(path, medusa_file.ARCHITECTURE)
    for key, value in ((medusa_file.WIDTH, 64), (medusa_file.TOKENS, 512), (medusa_file.HEADS, 1)):
        writer.add_uint32(f"{medusa_file.ARCHITECTURE}.{key}", value)
    writer.add_uint32(f"{medusa_file.ARCHITECTURE}.{medusa_file.BLOCKS}", 0)
    writer.add_tensor(medusa_file.output(0), np.zeros((512, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_medusa_heads_take_what_their_matrices_do(probe: ExactMeasure, files: dict[str, Path], tmp_path: Path) -> None:
    path, target = medusa(tmp_path / "medusa.gguf"), files["without"]
    assert kind(target, path) is kind(target, shape_here(path)) is HeadKind.MEDUSA
    exact = probe.measure(target, path, asked(512), HeadKind.MEDUSA)
    assert exact.draft is not None
    assert exact.draft.host == Bytes(weights=512 * 64 * 4)
    estimated = demand_of_shapes(shape_here(target), shape_here(path), asked(512), HeadKind.MEDUSA)
    assert estimated.draft == exact.draft


def test_a_model_without_a_head_has_none_to_be_estimated(files: dict[str, Path]) -> None:
    with pytest.raises(ShapeUnknown, match="no layers that predict"):
        demand_of_shapes(shape_here(files["without"]), None, asked(256), HeadKind.MTP)


def test_a_model_without_a_head_has_none_to_be_measured(probe: ExactMeasure, files: dict[str, Path]) -> None:
    with pytest.raises(LlamaError):
        probe.measure(files["without"], None, asked(256), HeadKind.MTP)
    assert probe.measure(files["without"], None, asked(256)).draft is None
