"""Every verb's `--help` ends with examples, and each of them works as it is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from specchat.cli.app import app
from specchat.cli.examples import EXAMPLES
from tests.cli.newcomer import Newcomer, newcomer

pytest.importorskip("matplotlib")
CASES = [(verb, line) for verb, lines in EXAMPLES.items() for line in lines]


def verbs(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        inner = "" if command.hidden else f"{path} {name}".strip()
        yield inner, command
        if hasattr(command, "commands"):
            yield from verbs(command, inner)


ALL = dict(verbs(typer.main.get_command(app)))


@pytest.fixture(scope="module")
def someone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    with pytest.MonkeyPatch.context() as patch, newcomer(tmp_path_factory.mktemp("newcomer"), patch) as held:
        yield held


def test_every_verb_has_examples_of_its_own() -> None:
    assert set(EXAMPLES) == set(ALL)
    for verb, lines in EXAMPLES.items():
        assert lines
        for line in lines:
            # Of a group those of its verbs count.
            assert f"specchat {verb}".strip() in line


@pytest.mark.parametrize("verb", sorted(ALL))
def test_help_ends_with_them_unbroken(verb: str, someone: Newcomer) -> None:
    code, said = someone.run(f"specchat {verb} --help")
    assert code == 0
    assert said.rstrip().endswith("\n".join(f"    {line}" for line in EXAMPLES[verb]))


@pytest.mark.parametrize(("verb", "line"), CASES)
def test_an_example_works_as_it_is_written(someone: Newcomer, verb: str, line: str) -> None:
    someone.prepare(verb)
    code, said = someone.run(line)
    assert code == 0, said
    assert "Traceback" not in said
    if line == "specchat":
        assert someone.opened == [""]
