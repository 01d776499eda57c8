"""`scripts/gpu-check` measures a machine without any model file; here it runs on the CPU, with toy shapes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from specchat.bench.gpu_check.blocks import Tile
from specchat.bench.gpu_check.oracle import OracleSampler
from specchat.bench.gpu_check.shapes import PAIRS, Shape
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu-check"
STAGES = ("files", "fit", "machine", "load", "target_curve", "draft", "host", "oracle", "chosen", "long_curve", "after")


@dataclass(frozen=True)
class Run:
    status: int
    out: str
    err: str
    report: dict[str, Any]
    left: list[str]
    """Names of files in the directory of the models, after the run."""

    def stage(self, pair: str, name: str) -> Any:
        return self.report["pairs"][pair][name]


def gpu_check(folder: Path, *options: str) -> Run:
    models, out = folder / "models", folder / "out.json"
    command = [sys.executable, str(SCRIPT), "--json", str(out), "--directory", str(models), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=folder)
    report = json.loads(out.read_text()) if out.exists() else {}
    left = sorted(path.name for path in models.iterdir()) if models.exists() else []
    return Run(done.returncode, done.stdout, done.stderr, report, left)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return gpu_check(tmp_path_factory.mktemp("toy"), "--toy")


def test_a_toy_run_ends_well_with_every_stage_of_both_pairs(toy: Run) -> None:
    assert toy.status == 0, toy.out + toy.err
    assert list(toy.report["pairs"]) == ["toy-llama", "toy-qwen3"]
    for found in toy.report["pairs"].values():
        assert tuple(found) == STAGES


def test_models_are_deleted_after_their_pair_was_measured(toy: Run) -> None:
    assert toy.left == []


def test_the_cost_of_every_pass_of_1_to_64_tokens_is_measured(toy: Run) -> None:
    for pair in toy.report["pairs"]:
        rows = toy.stage(pair, "target_curve")["rows"]
        assert list(map(int, rows)) == list(range(1, 65))
        assert all(0 < ms["least"] <= ms["median"] for ms in rows.values())
        assert toy.stage(pair, "long_curve")["held"] > toy.stage(pair, "target_curve")["held"]


def test_the_costs_of_draft_and_host_are_measured(toy: Run) -> None:
    for pair in toy.report["pairs"]:
        draft, host = toy.stage(pair, "draft"), toy.stage(pair, "host")
        assert min(*draft["token"].values(), draft["pass"]["rows"]["1"]["least"]) > 0
        samplers = [times for times in host.values() if isinstance(times, dict)]
        assert len(samplers) == 3
        assert all(min(times["plain"], times["drafted"]) > 0 for times in samplers)


def test_the_oracle_drafts_through_the_loop_and_changes_no_text(toy: Run) -> None:
    for pair in toy.report["pairs"]:
        oracle = toy.stage(pair, "oracle")
        assert oracle["text_as_written"]
        assert {run["alpha"] for run in oracle["runs"]} == {0.6, 0.8, 0.9}
        for run in oracle["runs"]:
            assert run["same_text"]
            assert 1 < run["tokens_per_step"] <= run["depth"] + 1
            assert min(run["speedup"], run["expected"], run["predicted"], run["free_speedup"]) > 0
        assert [best["alpha"] for best in oracle["best"]] == [0.6, 0.8, 0.9]


def test_chosen_depths_are_measured_down_to_a_draft_that_is_never_right(toy: Run) -> None:
    for pair in toy.report["pairs"]:
        runs = toy.stage(pair, "chosen")["runs"]
        assert [run["alpha"] for run in runs] == [0.05, 0.6, 0.8, 0.9]
        for run in runs:
            assert run["same_text"]
            assert min(run["first_speedup"], run["speedup"]) > 0
            assert sum(run["depths"].values()) > 0


def test_memory_in_use_is_what_the_fit_check_foretold_to_the_byte(toy: Run) -> None:
    for pair in toy.report["pairs"]:
        assert toy.stage(pair, "fit")["exact"]
        assert toy.stage(pair, "load")["equal_but_weights"]
    # A CPU keeps some weights of Q4_K in another order, and those of Q8_0 as they are.
    assert toy.stage("toy-qwen3", "load")["equal"]
    held = toy.stage("toy-qwen3", "load")["models"]["target"]["host"]
    assert min(held[part] for part in ("weights", "cache", "compute")) > 0


def test_people_see_each_stage_and_a_table(toy: Run) -> None:
    for name in STAGES[1:]:
        assert f"  {name} " in toy.out or f"  {name:13}" in toy.out
    assert "toy-qwen3: speed-up over plain decoding" in toy.out
    assert toy.err == ""


def test_a_run_that_is_out_of_time_says_so_and_leaves_a_whole_report(tmp_path: Path) -> None:
    run = gpu_check(tmp_path, "--toy", "--shapes", "toy-qwen3", "--minutes", "0", "--keep")
    assert run.status == 1
    assert "time was over" in run.stage("toy-qwen3", "error")
    assert "time was over" in run.out
    assert "files" in run.report["pairs"]["toy-qwen3"]
    assert len(run.left) == 2, "with --keep the models stay"


def test_a_disk_without_room_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from specchat.bench.gpu_check import model_file

    class Full:
        free = 1 << 30

    monkeypatch.setattr("shutil.disk_usage", lambda _path: Full)
    with pytest.raises(model_file.NoRoom, match=r"1\.1 GB free, but qwen3-14b takes 9\.2 GB.*--directory"):
        model_file.write_model(tmp_path / "x.gguf", PAIRS["14b"].target, 1)


def test_real_shapes_without_a_card_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    run = gpu_check(tmp_path, "--shapes", "8b")
    if run.report:
        pytest.skip("this build computes on a GPU")
    assert run.status == 2
    assert "computes on no GPU" in run.err
    assert run.left == []


def test_a_pair_that_does_not_exist_is_named_with_those_that_do(tmp_path: Path) -> None:
    run = gpu_check(tmp_path, "--shapes", "70b")
    assert run.status == 2
    assert "'70b'. Choose from 8b, 14b." in run.err


@pytest.mark.parametrize(
    ("shape", "public"),
    [
        (PAIRS["8b"].target, 4_920_739_232),
        (PAIRS["8b"].draft, 1_321_083_008),
        (PAIRS["14b"].target, 9_001_752_960),
        (PAIRS["14b"].draft, 639_446_688),
    ],
    ids=lambda value: value.name if isinstance(value, Shape) else "",
)
def test_shapes_weigh_what_the_public_files_weigh(shape: Shape, public: int) -> None:
    assert shape.n_bytes == pytest.approx(public, rel=0.03)


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q6_K, Kind.Q8_0])
def test_random_blocks_are_weights_of_the_size_asked_for(kind: Kind) -> None:
    tile = Tile(kind, 0.02, rows=1000, rng=np.random.default_rng(3))
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = b"".join(tile.read(tile.count - 100, 500 * size))
    assert len(raw) == 500 * size
    values = gguf.quants.dequantize(np.frombuffer(raw, dtype=np.uint8).reshape(500, size), kind)
    assert values.size == 500 * block
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(0.02, rel=0.05)
    assert abs(values.mean()) < 0.002


@pytest.mark.parametrize("alpha", [0.6, 0.9])
def test_the_oracle_is_right_as_often_as_it_is_told(alpha: float) -> None:
    text, count = [7, 1, 5, 3], 4000
    rule = acceptance_rule(AcceptanceMode.EXACT, seed=1)
    sampler = OracleSampler(SamplingParams(temperature=0), rule, text, alpha, np.random.default_rng(5))
    logits = np.zeros(8, dtype=np.float32)
    right = sum(sampler.distribution(logits, [7, 1]).argmax() == 5 for _ in range(count))
    assert right / count == pytest.approx(alpha, abs=4 * (alpha * (1 - alpha) / count) ** 0.5)
