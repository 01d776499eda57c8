"""What the scripts find on a machine, and the one sentence for what is missing."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.setup.machine import Machine

_DRIVER = "#!/usr/bin/env bash\necho 8.9\n"
_NVCC = "#!/usr/bin/env bash\necho release 12.4\n"

without_a_driver = pytest.mark.skipif(
    Path("/proc/driver/nvidia/version").exists(), reason="this machine has an NVIDIA driver"
)


def _old_python(version: str) -> str:
    return f"#!/usr/bin/env bash\necho {version}\n"


def _cmake_args(plan: str) -> str:
    found = re.search(r'CMAKE_ARGS="(.*)"', plan)
    assert found
    return found[1]


def _wheel(plan: str) -> str:
    found = re.search(r"keep the wheel in (.*)", plan)
    assert found
    return found[1]


@pytest.mark.parametrize("script", ["scripts/chat", "scripts/test"])
def test_an_old_python_is_one_sentence(machine: Machine, script: str) -> None:
    machine.stub("python3", _old_python("3.9"))
    sentence = machine.refusal(script)
    assert "needs Python 3.11 or newer" in sentence
    assert "python3 is 3.9" in sentence


def test_no_python_is_one_sentence(machine: Machine) -> None:
    machine.remove("python3")
    assert "needs Python 3.11 or newer: install one" in machine.refusal()


def test_a_newer_python_under_another_name_is_found(machine: Machine) -> None:
    (machine.bin / "python3").rename(machine.bin / "python3.12")
    machine.stub("python3", _old_python("3.9"))
    assert "python3.12" in machine.plan()


def test_a_python_that_is_named_is_the_one(machine: Machine, tmp_path: Path) -> None:
    named = (machine.bin / "python3").rename(tmp_path / "mine")
    assert str(named) in machine.plan(PYTHON=str(named))
    assert sys.executable in machine.plan(PYTHON=sys.executable)
    assert "needs Python 3.11" in machine.refusal(PYTHON=str(tmp_path / "absent"))


def test_debian_without_venv_is_one_sentence(machine: Machine) -> None:
    real = (machine.bin / "python3").read_text()
    machine.stub("python3", real.replace("*ensurepip* |", "*ensurepip*) exit 1 ;;\n"))
    assert re.search(r"apt-get install python3\.\d+-venv", machine.refusal())


@pytest.mark.parametrize("missing", ["cc", "c++"])
def test_a_missing_compiler_is_one_sentence(machine: Machine, missing: str) -> None:
    machine.remove(missing)
    sentence = machine.refusal()
    assert "C and a C++ compiler" in sentence
    assert "apt-get install g++" in sentence


def test_compilers_that_are_named_do(machine: Machine) -> None:
    (machine.bin / "cc").rename(machine.bin / "my-cc")
    (machine.bin / "c++").rename(machine.bin / "my-c++")
    machine.plan(CC="my-cc -m64", CXX="my-c++")


@without_a_driver
def test_without_a_driver_it_is_the_cpu_and_nothing_is_said_about_cuda(machine: Machine) -> None:
    machine.stub("nvcc", _NVCC)
    plan = machine.plan()
    assert "GGML_CUDA" not in plan
    assert "NVIDIA" not in plan


def test_llamafile_is_left_out_everywhere(machine: Machine) -> None:
    assert "-DGGML_LLAMAFILE=OFF" in _cmake_args(machine.plan())
    machine.stub("nvidia-smi", _DRIVER)
    machine.stub("nvcc", _NVCC)
    assert "-DGGML_LLAMAFILE=OFF" in _cmake_args(machine.plan())


def test_a_driver_with_nvcc_builds_with_cuda(machine: Machine) -> None:
    machine.stub("nvidia-smi", _DRIVER)
    machine.stub("nvcc", _NVCC)
    assert _cmake_args(machine.plan()).endswith(" -DGGML_CUDA=ON")


def test_nvcc_is_found_beside_path(machine: Machine, tmp_path: Path) -> None:
    machine.stub("nvidia-smi", _DRIVER)
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    machine.stub("nvcc", _NVCC).rename(tmp_path / "cuda" / "bin" / "nvcc")
    assert "-DGGML_CUDA=ON" in machine.plan(CUDA_HOME=str(tmp_path / "cuda"))


def test_a_driver_without_nvcc_builds_for_the_cpu_and_says_what_to_install(machine: Machine) -> None:
    machine.stub("nvidia-smi", _DRIVER)
    plan = machine.plan()
    assert "GGML_CUDA" not in plan
    (line,) = [line for line in plan.splitlines() if "NVIDIA" in line]
    assert "nvcc" in line
    assert "apt-get install nvidia-cuda-toolkit" in line


@without_a_driver
def test_a_driver_that_does_not_answer_is_none(machine: Machine) -> None:
    machine.stub("nvidia-smi", "#!/usr/bin/env bash\nexit 9\n")
    machine.stub("nvcc", _NVCC)
    assert "GGML_CUDA" not in machine.plan()


def test_the_users_cmake_args_come_last(machine: Machine) -> None:
    machine.stub("nvidia-smi", _DRIVER)
    machine.stub("nvcc", _NVCC)
    args = _cmake_args(machine.plan(CMAKE_ARGS="-DGGML_CUDA=OFF -DGGML_VULKAN=ON"))
    assert args.endswith(" -DGGML_CUDA=ON -DGGML_CUDA=OFF -DGGML_VULKAN=ON")


def test_a_wheel_belongs_to_what_it_was_built_with(machine: Machine) -> None:
    """Otherwise a wheel for the CPU, or for another card, would be taken for what is wanted now."""
    plain = _wheel(machine.plan())
    assert _wheel(machine.plan()) == plain
    others = {plain, _wheel(machine.plan(CMAKE_ARGS="-DGGML_NATIVE=OFF"))}
    machine.stub("nvidia-smi", _DRIVER)
    machine.stub("nvcc", _NVCC)
    others.add(_wheel(machine.plan()))
    machine.stub("nvcc", _NVCC.replace("12.4", "12.8"))
    others.add(_wheel(machine.plan()))
    machine.stub("nvidia-smi", _DRIVER.replace("8.9", "12.0"))
    others.add(_wheel(machine.plan()))
    machine.remove("nvidia-smi", "nvcc")
    machine.stub("c++", "#!/usr/bin/env bash\necho c++ 13\n")
    others.add(_wheel(machine.plan()))
    project = machine.checkout / "pyproject.toml"
    project.write_text(project.read_text().replace("llama-cpp-python>=0.3.36,<0.3.37", "llama-cpp-python>=0.3.37"))
    others.add(_wheel(machine.plan()))
    assert len(others) == 7
