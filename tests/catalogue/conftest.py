"""A loopback hub, and an empty cache for each test."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specchat.catalogue.hub import Hub, Patience
from tests.catalogue.loopback_hub import LoopbackHub

# huggingface_hub reads this once, when it is imported; statistics of its own would count as requests here.
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

_VARIABLES = ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A hub without repositories; the environment points to it and to an empty cache."""
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with LoopbackHub() as world:
        monkeypatch.setenv("HF_ENDPOINT", world.endpoint)
        yield world


@pytest.fixture
def said() -> list[str]:
    """What was said to the user."""
    return []


@pytest.fixture
def hub(said: list[str]) -> Callable[..., Hub]:
    """A hub client with little patience."""

    def make(*, offline: bool = False, tries: int = 3, connect_s: float = 5.0) -> Hub:
        # A busy machine is not a stalled connection: a second is long enough for that.
        patience = Patience(connect_s, stall_s=1.0, tries=tries, first_pause_s=0.01, longest_wait_s=3.0)
        return Hub(offline, patience, said.append)

    return make
