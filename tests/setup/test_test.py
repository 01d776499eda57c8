"""scripts/test and what CI calls: which checks run, in which order, and how they end."""

from __future__ import annotations

import pytest

from tests.setup.machine import Machine

_CHECKS = ["ruff check", "ruff format --check", "mypy ", "lint-imports ", "pytest "]


def _checks(machine: Machine) -> list[str]:
    return [call for call in machine.calls() if not call.startswith("pip")]


@pytest.mark.parametrize("script", ["scripts/test", ".ci/run"])
def test_every_check_runs_and_is_named(machine: Machine, script: str) -> None:
    result = machine.run(script, CI="true")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    named = [line.removeprefix("test: ") for line in result.stderr.splitlines() if line.startswith("test: ")]
    assert named == [check.strip() for check in _CHECKS]
    assert _checks(machine) == _CHECKS


def test_the_development_tools_are_installed(machine: Machine) -> None:
    machine.run("scripts/test")
    assert "pip install --editable .[demo,dev,plot]" in machine.calls()


def test_an_environment_with_the_tools_serves_the_chat_too_but_not_the_other_way_round(machine: Machine) -> None:
    machine.run("scripts/chat")
    machine.calls()
    machine.run("scripts/test")
    assert machine.calls() == ["pip install --editable .[demo,dev,plot]", *_CHECKS]
    assert machine.run("scripts/chat").stderr == ""


def test_arguments_go_to_pytest(machine: Machine) -> None:
    machine.run("scripts/test", "-k", "one or two")
    assert _checks(machine)[-1] == "pytest -k one or two"


def test_it_stops_at_the_first_check_that_fails_with_its_code(machine: Machine) -> None:
    result = machine.run("scripts/test", FAILING="mypy", FAILING_CODE="7")
    assert result.returncode == 7
    assert _checks(machine) == _CHECKS[:3]
