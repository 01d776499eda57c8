"""A model that is not here is measured from its header, or estimated where the hub can't be asked."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.models_fit import fit_model
from tests.catalogue.loopback_hub import LoopbackHub


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub, an empty cache of its files, and an empty one of headers."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with LoopbackHub() as world:
        monkeypatch.setenv("HF_ENDPOINT", world.endpoint)
        yield world


def fit(model: str, **options: Any) -> tuple[ExitCode, dict[str, Any], str]:
    streams = Environment(None, io.BytesIO(), io.BytesIO(), False, False, False, {})
    code = fit_model(streams, model, as_json=True, **options)
    assert isinstance(streams.stdout, io.BytesIO)
    assert isinstance(streams.stderr, io.BytesIO)
    out = streams.stdout.getvalue()
    return code, json.loads(out) if out else {}, streams.stderr.getvalue().decode()


@pytest.mark.demo
def test_a_header_from_the_hub_measures_as_the_whole_file_does(world: LoopbackHub, demo: Path) -> None:
    world.add("user/model", model__gguf=demo)
    code, there, _ = fit("hf:user/model:model.gguf", ctx=2048)
    _, here, _ = fit(str(demo), ctx=2048)
    assert code is ExitCode.OK
    assert there["exact"] is True
    assert there["target"] == here["target"]
    assert 0 < world.sent < 8 << 20 < demo.stat().st_size


@pytest.mark.demo
def test_a_header_is_fetched_once(world: LoopbackHub, demo: Path) -> None:
    world.add("user/model", model__gguf=demo)
    fit("hf:user/model:model.gguf", ctx=512)
    asked = len(world.asked("blob"))
    assert fit("hf:user/model:model.gguf", ctx=4096)[1]["exact"] is True
    assert len(world.asked("blob")) == asked > 0


def test_where_the_hub_has_no_such_file_what_is_known_has_to_do_and_that_is_said_once(world: LoopbackHub) -> None:
    code, data, said = fit("qwen3-8b")
    assert code in (ExitCode.OK, ExitCode.DOES_NOT_FIT)
    assert data["exact"] is False
    assert data["draft"]["weights"] > 0
    assert said.count("What follows is an estimate") == 1


def test_offline_nothing_is_asked(world: LoopbackHub) -> None:
    assert fit("qwen3-8b", offline=True)[1]["exact"] is False
    assert fit("hf:user/model:model.gguf", offline=True)[0] is ExitCode.MODEL_UNAVAILABLE
    assert world.asked() == []


def test_a_plan_for_a_card_asks_nothing_of_a_model_that_is_known(world: LoopbackHub) -> None:
    assert fit("qwen3-14b", vram="24GiB")[0] is ExitCode.OK
    assert world.asked() == []


def test_gemma_s_assistant_is_counted_where_neither_file_is_here(world: LoopbackHub) -> None:
    code, data, said = fit("gemma-4-12b", vram="24GiB", offline=True)
    assert (code, data["head"], said) == (ExitCode.OK, "mtp", "")
    assert data["draft"]["weights"] > 400 << 20
    assert data["draft"]["cache"] == 0
    assert world.asked() == []


def test_a_repository_that_is_not_there_is_a_sentence(world: LoopbackHub) -> None:
    code, data, said = fit("hf:user/nothing:model.gguf", vram="24GiB")
    assert (code, data) == (ExitCode.MODEL_UNAVAILABLE, {})
    assert "user/nothing" in said
