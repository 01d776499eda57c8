"""Fixtures shared by the rooms' tests. User directories are redirected: a test never touches the real ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate
from tests.tiny_model import write_model


def pytest_configure(config: pytest.Config) -> None:
    """Let each worker have a core of its own: threads that wait for each other's cores take many times as long."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[int(worker.removeprefix("gw")) % len(cores)]})


@pytest.fixture(autouse=True, scope="session")
def _own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    home = tmp_path_factory.mktemp("home")
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        patch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    for name in ("SPECCHAT_MODEL", "NO_COLOR"):
        patch.delenv(name, raising=False)
    yield
    patch.undo()


@pytest.fixture(scope="session")
def demo() -> Path:
    """The embedded demo model."""
    return locate(Catalogue().find("demo").target)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of two layers."""
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf")
