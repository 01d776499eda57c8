"""`specchat doctor` says what this machine is, what is missing, and whether specchat can chat here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat import checkup
from specchat.fit.memory import Card
from specchat.llama.library import library
from tests.command_line import Household, household, run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


@pytest.fixture
def on_cpu() -> None:
    if library().offloads:
        pytest.skip("this machine computes on a GPU")


@pytest.mark.demo
@pytest.mark.usefixtures("demo", "on_cpu")
def test_it_says_plainly_what_is_here(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "nvidia_cards", dict)
    code, out, err = run("doctor")
    assert (code, err) == (0, "")
    told = {line[:20].strip(): line[21:] for line in out.splitlines()}
    assert told["gpu"] == "none (no NVIDIA GPU)"
    assert told["llama cpp build"] == "CPU build"
    assert told["demo"] == "available"
    assert "llama-cpp-python 0.3" in told["packages"]
    assert told["model cache"].startswith(f"path {home.cache}, files 0, used 0 B, free ")
    assert told["hub"].startswith(f"address {home.hub.endpoint}, reachable yes")
    assert out.endswith("specchat can chat here, on the CPU, with demo.\n")


@pytest.mark.demo
@pytest.mark.usefixtures("demo")
def test_the_object_says_the_same(home: Household) -> None:
    assert run("models", "pull", "pair", "-y").code == 0
    code, out, err = run("doctor", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["schema"], found["usable"], found["problems"], found["demo"]) == (1, True, [], True)
    assert found["models_here"] == ["demo", "pair"] or found["models_here"] == ["pair", "demo"]
    assert found["model_cache"]["files"] == 2
    assert found["model_cache"]["used_bytes"] > 250_000
    assert found["hub"]["reachable"] is True
    assert found["memory"]["free_bytes"] > 0


def test_without_any_model_it_is_unusable_and_says_what_to_do(home: Household) -> None:
    home.catalogue(
        '[demo]\ntarget = { package = "no_such_package", file = "x", size = 1, sha256 = "' + "0" * 64 + '" }\n'
    )
    code, out, _ = run("doctor")
    assert code == 1
    assert "! There is no model on this machine yet." in out
    assert "not installed" in out
    assert out.endswith("specchat can't chat here yet.\n")
    code, out, _ = run("doctor", "--json")
    found = json.loads(out)
    assert (code, found["usable"], found["demo"], found["models_here"]) == (1, False, False, [])
    assert len(found["problems"]) == 1


def test_a_catalogue_with_a_mistake_is_told_beside_the_rest(home: Household) -> None:
    home.catalogue("[x]\n")
    code, out, _ = run("doctor", "--offline")
    assert code == 1
    assert "models.toml, [x]: target is missing." in out
    assert "llama cpp build" in out


def test_offline_it_asks_nobody(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "reachable not asked" in run("doctor", "--offline").out
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert json.loads(run("doctor", "--json").out)["hub"]["reachable"] is None
    assert home.hub.asked() == []


@pytest.mark.demo
@pytest.mark.usefixtures("demo")
def test_a_hub_that_does_not_answer_is_no_reason_not_to_chat(home: Household) -> None:
    home.hub.stop()
    code, out, _ = run("doctor")
    assert code == 0
    assert f"The hub {home.hub.endpoint} can't be reached" in out
    assert "models that are here work without it" in out


@pytest.mark.usefixtures("on_cpu")
def test_a_card_that_the_build_can_not_use_is_told(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    card = Card("RTX 4090", 24 << 30, 23 << 30, display=True)
    monkeypatch.setattr(checkup, "nvidia_cards", lambda: {"0000:01:00.0": card})
    out = run("doctor", "--offline").out
    assert "RTX 4090, total 25.8 GB, free 24.7 GB" in out
    assert "There is a graphics card (RTX 4090), but this llama.cpp computes on the CPU only." in out
    assert "scripts/setup" in out


def test_a_broken_llama_cpp_is_told(home: Household) -> None:
    broken = home.folder / "broken" / "llama_cpp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open shared object file')\n")
    done = subprocess.run(
        [sys.executable, "-m", "specchat", "doctor", "--offline"],
        env={**os.environ, "PYTHONPATH": f"{broken.parent}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "! llama.cpp can't be loaded (libcudart.so.12: cannot open shared object file)" in done.stdout
