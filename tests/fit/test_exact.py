"""The exact measure equals a real load to the byte, costs no memory, and says when it can't be had."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue, CutFromTarget
from specchat.drafters.layer_skip import cut_draft
from specchat.fit.demand import Bytes, ModelDemand
from specchat.fit.exact import ExactMeasure, FitUnavailable, largest_context, measure
from specchat.fit.request import FitRequest
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from tests.fit.real_load import DRAFT_TOKENS

pytestmark = pytest.mark.demo

CONTEXTS = (512, 2000, 4096)


@pytest.fixture(scope="module")
def draft(demo: Path) -> Path:
    """The demo's own draft."""
    cut = Catalogue().find("demo").draft
    assert isinstance(cut, CutFromTarget)
    return cut_draft(demo, cut.drop_layers)


@pytest.fixture(scope="module")
def probe() -> Iterator[ExactMeasure]:
    with ExactMeasure() as exact:
        yield exact


def asked(context: int, kv_type: KVType = KVType.F16) -> FitRequest:
    return FitRequest(context=context, kv_type=kv_type, draft_kv_type=kv_type, n_outputs_max=DRAFT_TOKENS + 1)


def really_held(target: Path, draft: Path) -> dict[str, dict[str, list[int]]]:
    wanted = {"target": str(target), "draft": str(draft), "contexts": CONTEXTS}
    done = subprocess.run(
        [sys.executable, "-m", "tests.fit.real_load", json.dumps(wanted)], capture_output=True, text=True, check=True
    )
    held: dict[str, dict[str, list[int]]] = json.loads(done.stdout)
    return held


def on_host(model: ModelDemand | None) -> list[int]:
    assert model is not None
    assert model.device == Bytes()
    return [model.host.weights, model.host.cache, model.host.compute]


def test_the_measure_equals_what_an_engine_really_holds_to_the_byte(
    probe: ExactMeasure, demo: Path, draft: Path
) -> None:
    real = really_held(demo, draft)
    measured = {}
    for context in CONTEXTS:
        for kv_type in KVType:
            demand = probe.measure(demo, draft, asked(context, kv_type))
            assert demand.exact
            assert demand.total == sum(on_host(demand.target)) + sum(on_host(demand.draft))
            measured[f"{context} {kv_type.name}"] = {
                "target": on_host(demand.target),
                "draft": on_host(demand.draft),
            }
    assert len(real) == 6
    assert measured == real


def test_a_header_stretched_to_the_size_of_the_file_measures_the_same(
    probe: ExactMeasure, demo: Path, tmp_path: Path
) -> None:
    header = read_header(demo)
    sparse = tmp_path / "header.gguf"
    with demo.open("rb") as whole, sparse.open("wb") as file:
        file.write(whole.read(header.data_start))
        file.truncate(demo.stat().st_size)
    assert sparse.stat().st_blocks * 512 < 4 << 20
    assert probe.measure(sparse, None, asked(4096)) == probe.measure(demo, None, asked(4096))


def test_a_target_alone_has_no_draft_in_its_measure(probe: ExactMeasure, demo: Path) -> None:
    assert probe.measure(demo, None, asked(512)).draft is None


def test_a_recurrent_model_is_measured_with_its_snapshots(probe: ExactMeasure, recurrent: Path) -> None:
    one = probe.measure(recurrent, None, FitRequest(context=256)).target.host.cache
    assert one > 0
    assert probe.measure(recurrent, None, FitRequest(context=512)).target.host.cache == one


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.tiny_model import write_recurrent_model

    return write_recurrent_model(tmp_path_factory.mktemp("recurrent") / "mamba.gguf")


def test_a_measure_takes_less_than_the_memory_it_names(demo: Path, draft: Path) -> None:
    with ExactMeasure() as exact:
        demand = exact.measure(demo, draft, asked(1 << 20))
        status = Path(f"/proc/{exact._process.pid}/status").read_text()
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert demand.total > 20 << 30
    assert peak_kib << 10 < 512 << 20


def test_the_largest_context_fits_and_one_step_more_does_not(probe: ExactMeasure, demo: Path, draft: Path) -> None:
    usable = probe.measure(demo, draft, asked(3000)).total
    found = largest_context(demo, draft, asked(4096), usable)
    assert probe.measure(demo, draft, asked(found)).total <= usable
    assert probe.measure(demo, draft, asked(found + 256)).total > usable


def test_one_call_answers_within_a_few_seconds_even_on_a_busy_machine(demo: Path, draft: Path) -> None:
    started = time.perf_counter()
    measure(demo, draft, asked(4096))
    assert time.perf_counter() - started < 5


def test_a_quantised_cache_that_llama_cpp_refuses_is_refused_here(probe: ExactMeasure, tiny: Path) -> None:
    # Heads of 16 elements hold no block of 32.
    with pytest.raises(LlamaError, match="quantised KV cache"):
        probe.measure(tiny, None, asked(256, KVType.Q8_0))
    assert probe.measure(tiny, None, asked(256)).total > 0


def test_a_file_that_is_no_model_is_said_to_be_none(probe: ExactMeasure, tmp_path: Path) -> None:
    path = tmp_path / "text.gguf"
    path.write_text("no model")
    with pytest.raises(ModelUnusable, match="not a GGUF model"):
        probe.measure(path, None, asked(256))


def test_a_plan_for_a_gpu_is_left_to_the_formula_where_the_build_has_none(probe: ExactMeasure, demo: Path) -> None:
    if probe.devices().offloads:
        pytest.skip("this build computes on a GPU")
    with pytest.raises(FitUnavailable, match="computes on no GPU"):
        probe.measure(demo, None, replace(asked(512), on_device=True, flash_attention=True))


def test_a_probe_that_dies_makes_the_measure_unavailable(demo: Path) -> None:
    with ExactMeasure() as exact:
        exact.devices()
        os.kill(exact._process.pid, signal.SIGABRT)
        with pytest.raises(FitUnavailable, match="SIGABRT"):
            exact.measure(demo, None, asked(512))


def test_an_abort_in_llama_cpp_costs_the_probe_and_not_the_program(tmp_path: Path) -> None:
    from tests.tiny_model import write_model

    # A model without layers runs into an assertion of llama.cpp.
    path = write_model(tmp_path / "empty.gguf", layers=0)
    with ExactMeasure() as exact, pytest.raises(FitUnavailable, match="ended without an answer"):
        exact.measure(path, None, asked(256))


def test_a_probe_that_can_not_start_makes_the_measure_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(FitUnavailable, match="could not be started"):
        ExactMeasure()


def test_what_lies_in_the_working_directory_is_not_imported(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert measure(demo, None, asked(512)).exact


def test_a_driver_that_hangs_is_not_waited_for(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specchat.fit.exact._PATIENCE_S", 0.3)
    with ExactMeasure() as exact:
        os.kill(exact._process.pid, signal.SIGSTOP)
        with pytest.raises(FitUnavailable, match="SIGKILL"):
            exact.measure(demo, None, asked(512))
