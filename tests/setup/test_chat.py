"""scripts/chat from a fresh checkout to the second call, and what happens when something comes in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.setup.machine import Machine, alive, eventually


def _asked(machine: Machine, verb: str) -> list[str]:
    return [call for call in machine.calls() if call.startswith(verb)]


def test_the_first_call_builds_installs_and_answers(machine: Machine) -> None:
    result = machine.run("scripts/chat", "two words", "*", "", stdin="piped\n")
    assert (result.returncode, result.stdout) == (0, "<two words><*><>piped\n"), result.stderr
    assert "building llama.cpp" in result.stderr
    assert "minutes" in result.stderr
    assert (machine.home / "called-from").read_text().strip() == str(machine.home)
    build, wheel, editable, specchat = machine.calls()
    assert "--no-cache-dir" in build
    assert "--no-binary llama-cpp-python" in build
    assert build.endswith("llama-cpp-python>=0.3.36,<0.3.37")
    assert wheel.startswith("pip install --force-reinstall --no-deps ")
    assert str(machine.wheels) in wheel
    assert editable == "pip install --editable .[demo]"
    assert specchat == "specchat two words * "


def test_the_second_call_asks_nothing_of_python_pip_or_compilers(machine: Machine) -> None:
    machine.run("scripts/chat")
    machine.calls()
    machine.remove("python3", "cc", "c++", "flock")
    machine.hook("tool", "")
    result = machine.run("scripts/chat", "again", FAILING="specchat", FAILING_CODE="5")
    assert (result.returncode, result.stdout, result.stderr) == (5, "<again>", "")
    assert machine.calls() == ["specchat again"]


def test_it_works_through_a_link(machine: Machine) -> None:
    link = machine.home / "chat"
    link.symlink_to(machine.checkout / "scripts" / "chat")
    assert machine.run(link, "hello").stdout == "<hello>"


def test_a_second_checkout_needs_no_build(machine: Machine, tmp_path: Path) -> None:
    machine.run("scripts/chat")
    machine.calls()
    machine.check_out(tmp_path / "second")
    machine.run(tmp_path / "second" / "scripts" / "chat")
    assert [call.split()[:2] for call in machine.calls()] == [["pip", "install"], ["pip", "install"], ["specchat"]]


def test_another_set_of_arguments_builds_anew_and_is_remembered(machine: Machine) -> None:
    machine.run("scripts/chat")
    machine.run("scripts/chat", CMAKE_ARGS="-DGGML_VULKAN=ON")
    assert len(_asked(machine, "pip wheel")) == 2
    machine.run("scripts/chat")
    assert len(_asked(machine, "pip install --force-reinstall")) == 1
    assert machine.run("scripts/chat").stderr == ""


def test_nvcc_installed_later_builds_with_cuda(machine: Machine) -> None:
    machine.stub("nvidia-smi", "#!/usr/bin/env bash\n")
    assert "no nvcc" in machine.run("scripts/chat").stderr
    assert machine.run("scripts/chat").stderr == ""
    machine.stub("nvcc", "#!/usr/bin/env bash\necho release 12.4\n")
    assert "this machine's cuda" in machine.run("scripts/chat").stderr
    machine.remove("nvcc")
    assert machine.run("scripts/chat").stderr == "", "a shell without CUDA on its PATH is no reason to build again"


def test_a_changed_project_file_installs_without_building(machine: Machine) -> None:
    machine.run("scripts/chat")
    machine.calls()
    _change_project(machine)
    machine.run("scripts/chat")
    assert machine.calls() == ["pip install --editable .[demo]", "specchat "]


def test_without_a_network_a_changed_project_file_costs_nothing_that_worked(machine: Machine) -> None:
    machine.run("scripts/chat")
    project = machine.checkout / "pyproject.toml"
    before = project.read_text()
    _change_project(machine)
    machine.hook("install", "echo 'NewConnectionError: Name or service not known'; exit 1\n")
    result = machine.run("scripts/chat")
    assert result.returncode == 1
    assert "the package index can't be reached" in result.stderr.splitlines()[-1]
    project.write_text(before)
    machine.calls()
    assert machine.run("scripts/chat").stderr == ""
    assert machine.calls() == ["specchat "]


def _change_project(machine: Machine) -> None:
    with (machine.checkout / "pyproject.toml").open("a") as file:
        file.write("\n# changed\n")


def test_a_moved_checkout_is_set_up_anew(machine: Machine, tmp_path: Path) -> None:
    machine.run("scripts/chat")
    machine.checkout = machine.checkout.rename(tmp_path / "moved")
    result = machine.run("scripts/chat")
    assert "making it anew" in result.stderr
    assert result.returncode == 0
    assert machine.run("scripts/chat").stderr == ""


def test_a_failed_build_names_the_log_and_shows_its_errors_and_its_end(machine: Machine) -> None:
    noise = "for i in {1..50}; do echo line $i; done"
    chatter = "echo '  note: This error is no problem of pip.'; echo 'ERROR: Failed to build one or more wheels'"
    machine.hook("wheel", f"{noise}; echo 'a.cpp:1: error: no such thing' >&2; {noise}; {chatter}; exit 1\n")
    result = machine.run("scripts/chat")
    assert (result.returncode, result.stdout) == (1, "")
    log = machine.checkout / ".venv" / "llama-build.log"
    sentence, *lines = result.stderr.splitlines()[-7:]
    assert "could not be built" in sentence
    assert str(log) in sentence
    assert [line.strip() for line in lines] == ["a.cpp:1: error: no such thing", *(f"line {n}" for n in range(46, 51))]
    assert "ERROR: Failed" in log.read_text()
    assert not list(machine.wheels.iterdir())
    machine.hook("wheel", "")
    assert machine.run("scripts/chat").returncode == 0


def test_an_interrupted_build_leaves_nothing_and_is_done_at_the_next_call(machine: Machine) -> None:
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = _stop_during(machine, "wheel", number, code)
        assert not alive(process)
        assert not list(machine.wheels.iterdir())
    assert machine.run("scripts/chat").returncode == 0
    assert machine.run("scripts/chat").stderr == ""


def test_a_killed_build_is_swept_up_by_the_next(machine: Machine) -> None:
    os.kill(_stop_during(machine, "wheel", signal.SIGKILL, -signal.SIGKILL), signal.SIGKILL)
    assert list(machine.wheels.glob("building.*"))
    assert machine.run("scripts/chat").returncode == 0
    (wheel,) = machine.wheels.iterdir()
    assert not wheel.name.startswith("building.")


def test_an_interrupted_install_begins_with_a_new_environment(machine: Machine) -> None:
    _stop_during(machine, "install", signal.SIGINT, 130)
    (machine.checkout / ".venv" / "half").touch()
    result = machine.run("scripts/chat")
    assert result.returncode == 0
    assert "unfinished" in result.stderr
    assert not (machine.checkout / ".venv" / "half").exists()


def _stop_during(machine: Machine, verb: str, number: signal.Signals, code: int) -> int:
    """End scripts/chat as the terminal would, while pip works; answers pip's process id."""
    started = machine.home / "started"
    started.unlink(missing_ok=True)
    machine.hook(verb, f"echo $$ >'{started}.new'; mv '{started}.new' '{started}'; sleep 30\n")
    process = machine.start("scripts/chat")
    eventually(started.exists)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, ""), err
    machine.hook(verb, "")
    return int(started.read_text())


def test_two_calls_at_once_do_the_work_once(machine: Machine) -> None:
    machine.hook("wheel", "sleep 0.2\n")
    both = [machine.start("scripts/chat", name) for name in ("one", "two")]
    assert [process.communicate(timeout=60)[0] for process in both] == ["<one>", "<two>"]
    verbs = [" ".join(call.split()[:2]) for call in machine.calls() if call.startswith("pip")]
    assert verbs == ["pip wheel", "pip install", "pip install"]


def test_two_checkouts_at_once_build_once(machine: Machine, tmp_path: Path) -> None:
    machine.check_out(tmp_path / "second")
    machine.hook("wheel", "sleep 0.2\n")
    both = [machine.start(directory / "scripts" / "chat") for directory in (machine.checkout, tmp_path / "second")]
    for process in both:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert len(_asked(machine, "pip wheel")) == 1


def test_a_cache_that_cannot_be_written_is_no_obstacle(machine: Machine) -> None:
    (machine.home / ".cache").touch()
    assert machine.run("scripts/chat", "hello").stdout == "<hello>"
    assert machine.run("scripts/chat", "hello").stderr == ""


def test_a_build_without_flock_works(machine: Machine) -> None:
    machine.remove("flock")
    assert machine.run("scripts/chat", "hello").stdout == "<hello>"


def test_progress_is_plain_lines_when_nobody_watches(machine: Machine) -> None:
    machine.hook("wheel", "echo '  [7/20] c++'; sleep 0.3\n")
    result = machine.run("scripts/chat")
    assert "building llama.cpp: 30 % (0:0" in result.stderr
    assert "\r" not in result.stderr
    assert "\x1b" not in result.stderr


def test_an_environment_made_by_hand_is_used(machine: Machine) -> None:
    machine.run("scripts/chat")
    (machine.checkout / ".venv" / "specchat.stamp").unlink()
    (machine.checkout / ".venv" / "mine").touch()
    assert machine.run("scripts/chat").returncode == 0
    assert (machine.checkout / ".venv" / "mine").exists()


def test_an_environment_that_lost_its_python_is_made_anew(machine: Machine) -> None:
    machine.run("scripts/chat")
    python = machine.checkout / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(machine.home / "gone")
    result = machine.run("scripts/chat")
    assert result.returncode == 0
    assert "making it anew" in result.stderr
