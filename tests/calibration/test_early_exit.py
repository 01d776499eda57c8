"""A calibration finds a head that agrees more often, keeps it, and the drafter then uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specchat.calibration.agreement import CalibrationCancelled
from specchat.calibration.early_exit import EarlyExitCalibration, calibrate_early_exit
from specchat.calibration.exit_states import Fit
from specchat.drafters.early_exit import choose_exit, head_directory, open_early_exit, record_path
from specchat.drafters.kept import content_digest
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.llama.head import Head, HeadNotCuttable
from specchat.llama.model import Model
from tests.tiny_model import write_model

LAYERS = 4
PROMPTS = [[1, 262 + i, 270, 270 + i] for i in range(12)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Small weights: layers that change little, as those of real models, where a linear map can help.
    return write_model(tmp_path_factory.mktemp("calibration") / "four.gguf", layers=LAYERS, seed=11, spread=0.2)


@pytest.fixture(scope="module")
def found(target: Path) -> EarlyExitCalibration:
    return calibrate_early_exit(target, PROMPTS, exits=(2, 3, LAYERS), answer_tokens=40, text_tokens=3000, threads=1)


@pytest.fixture
def no_record(target: Path) -> Iterator[None]:
    record = record_path(content_digest(target))
    kept = record.read_bytes() if record.exists() else None
    record.unlink(missing_ok=True)
    yield
    if kept is not None:
        record.write_bytes(kept)


def test_the_fit_finds_a_linear_map() -> None:
    rng = np.random.default_rng(0)
    linear = rng.normal(0, 1, (16, 16))
    fit = Fit(1, 16)
    for _ in range(5):
        inputs = rng.normal(0, 1, (400, 16)).astype(np.float32)
        fit.add(inputs, (inputs @ linear).astype(np.float32))
    np.testing.assert_allclose(fit.solve(), linear, atol=0.02)


def test_every_exit_is_measured_before_and_after(found: EarlyExitCalibration) -> None:
    assert [exit.layer for exit in found.exits] == [2, 3, LAYERS]
    assert all(0 <= exit.alpha_before <= 1 and 0 <= exit.alpha_after <= 1 for exit in found.exits)
    # After all layers there is nothing to guess.
    assert found.exits[-1].alpha_before == 1
    assert found.exits[-1].alpha_after > 0.95
    assert sum(exit.alpha_after - exit.alpha_before for exit in found.exits[:-1]) > 0
    best = max(found.exits, key=lambda exit: exit.speedup)
    assert found.exit_layer == best.layer
    assert found.fitted_tokens > 3000
    assert found.held_out_tokens > 30


def test_the_drafter_uses_what_was_found(target: Path, found: EarlyExitCalibration) -> None:
    with Model(target) as model, Context(model, ContextParams(64, 8, 1, layer_tap=True)) as context:
        drafter = open_early_exit(context)
        assert drafter.exit_layer == found.exit_layer
        assert drafter.extra_bytes == found.extra_bytes
        drafter.close()
        other = next(exit.layer for exit in found.exits if exit.layer != found.exit_layer)
        assert not choose_exit(model, other).calibrated


def test_the_record_says_what_the_table_says(target: Path, found: EarlyExitCalibration) -> None:
    record = json.loads(record_path(content_digest(target)).read_text(encoding="utf-8"))
    assert record["exit_layer"] == found.exit_layer
    assert [exit["alpha_after"] for exit in record["exits"]] == [exit.alpha_after for exit in found.exits]
    Head(head_directory() / record["head"], threads=1).close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"exit_layer": 2}', '{"exit_layer": 2, "head": "gone.gguf"}'])
def test_a_damaged_record_is_no_calibration(target: Path, no_record: None, text: str) -> None:
    path = record_path(content_digest(target))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    with Model(target) as model:
        assert not choose_exit(model).calibrated
    path.unlink()


@pytest.mark.parametrize("after", [0, 5, 60])
def test_a_cancelled_calibration_keeps_nothing(target: Path, no_record: None, after: int) -> None:
    asked = iter(range(10**6))
    with pytest.raises((CalibrationCancelled, LlamaError), match="Stopped"):
        calibrate_early_exit(target, PROMPTS, threads=1, text_tokens=3000, cancelled=lambda: next(asked) >= after)
    assert not record_path(content_digest(target)).exists()


def test_what_can_not_be_calibrated_is_said(target: Path, tmp_path: Path) -> None:
    with pytest.raises(LlamaError, match="at least 4 prompts"):
        calibrate_early_exit(target, PROMPTS[:3])
    capped = write_model(tmp_path / "capped.gguf", extra={"final_logit_softcapping": 30})
    with pytest.raises(HeadNotCuttable, match="logits"):
        calibrate_early_exit(capped, PROMPTS)
