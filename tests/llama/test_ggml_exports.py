"""ggml's functions are found in the libraries that come with the build, wherever a system puts them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from numpy.random import mtrand

from specchat.llama import ggml_exports, gpus
from specchat.llama.devices import device_memory, machine
from specchat.llama.errors import LlamaError
from specchat.llama.ggml import Ggml
from specchat.llama.ggml_exports import libraries_beside
from specchat.llama.library import Library, library

COUNT, TYPE = "ggml_backend_dev_count", "ggml_backend_dev_type"


def a_library_without_ggml() -> Path:
    """A shared library that leads to nothing of ggml, as llama.dll does on Windows."""
    return Path(mtrand.__file__)


def laid_out(directory: Path, names: Sequence[str]) -> ctypes.CDLL:
    """A build in `directory` whose llama library exports nothing of ggml, with ggml's own libraries as `names`."""
    llama = directory / "llama.dll"
    llama.symlink_to(a_library_without_ggml())
    real = Path(library().api._lib._name).parent
    for name in names:
        stem = Path(name).stem.removeprefix("lib")
        (directory / name).symlink_to(real / f"lib{stem}.so")
    return ctypes.CDLL(str(llama))


@pytest.fixture
def fresh() -> Iterator[None]:
    """No function is remembered from before, nor after."""
    gpus.registry.cache_clear()
    yield
    gpus.registry.cache_clear()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """A build for a GPU whose ggml is nowhere to be found."""
    llama = laid_out(tmp_path, ())
    monkeypatch.setattr(ggml_exports, "_libraries", lambda: libraries_beside(llama))
    monkeypatch.setattr(Library, "offloads", True)


@pytest.mark.parametrize("names", [("ggml.dll", "ggml-base.dll"), ("libggml.dylib", "libggml-base.dylib")])
def test_functions_are_found_beside_a_library_that_does_not_lead_to_them(
    tmp_path: Path, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, fresh: None
) -> None:
    llama = laid_out(tmp_path, names)
    assert not hasattr(llama, COUNT)
    monkeypatch.setattr(ggml_exports, "_libraries", lambda: libraries_beside(llama))
    registry = gpus.registry()
    kinds = [registry.type(registry.get(index)) for index in range(registry.count())]
    assert 0 in kinds, "the processor is one of the devices"
    Ggml()


def test_what_is_no_library_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    llama = laid_out(tmp_path, ("ggml.dll",))
    (tmp_path / "ggml-base.dll").write_text("damaged")
    (tmp_path / "ggml-cpu.dll").symlink_to(a_library_without_ggml())
    assert [Path(lib._name).name for lib in libraries_beside(llama)] == ["llama.dll", "ggml.dll"]


def test_a_build_that_does_not_tell_its_gpus_still_runs_and_says_so(bare: None) -> None:
    assert gpus.gpus() == []
    reason = gpus.gpus_unknown()
    assert reason is not None
    assert COUNT in reason
    assert reason.endswith("how much of its memory is free.")
    assert device_memory().used_bytes > 0
    assert len(machine()) == 4
    with pytest.raises(LlamaError, match=r"ggml_init\. .* --method"):
        Ggml()


def test_a_build_for_the_processor_has_no_gpus_to_tell() -> None:
    if library().offloads:
        pytest.skip("This build offloads.")
    assert gpus.gpus() == []
    assert gpus.gpus_unknown() is None
