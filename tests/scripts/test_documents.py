"""What the documents say is so: their generated parts are up to date, and the commands in README.md work as written."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from specchat.cli.examples import EXAMPLES
from specchat.drafters.method import Method
from tests.cli.newcomer import ROOT, Newcomer, newcomer

README = (ROOT / "README.md").read_text(encoding="utf-8")
NOT_RUN = {
    "git clone <this repository> && cd specchat": "the newcomer has it already",
    "scripts/chat": "makes the environment: tests/setup runs it",
    "scripts/test": "runs this very suite",
    'export PATH="$PWD/.venv/bin:$PATH"': "the newcomer's PATH has the program already",
}
"""Commands that are not run here, with the reason."""
LINKS = re.compile(r"\]\(([^)#]+)\)")


def commands() -> list[str]:
    """The lines of every block without a language, with the comments that follow them."""
    found, block = list[str](), None
    for line in README.splitlines():
        if line.startswith("```"):
            block = line.removeprefix("```") if block is None else None
        elif block == "" and line.strip():
            found.append(line)
    return found


def bare(line: str) -> str:
    """Without its comment."""
    return re.sub(r"\s+#\s.*", "", line)


@pytest.fixture(scope="module")
def someone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch, newcomer(tmp_path_factory.mktemp("newcomer"), patch) as held:
        held.prepare("rest build")
        yield held


@pytest.mark.parametrize("script", ["make-reference", "make-benchmarks"])
def test_what_is_generated_is_up_to_date(script: str) -> None:
    command = [sys.executable, str(ROOT / "scripts" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


EXAMPLES_TOO = {line for lines in EXAMPLES.values() for line in lines}
"""tests/cli/test_examples.py runs these."""


@pytest.mark.parametrize("line", [a for a in commands() if bare(a) not in {*NOT_RUN, *EXAMPLES_TOO}], ids=bare)
def test_a_command_of_the_readme_works_as_it_is_written(someone: Newcomer, line: str) -> None:
    code, said = someone.run(line)
    assert code == 0, said
    assert "Traceback" not in said


def test_what_is_not_run_stands_in_the_readme() -> None:
    assert set(NOT_RUN) <= set(map(bare, commands()))
    assert len(commands()) > 20


def test_the_first_thing_seen_is_a_picture_and_both_commands_follow_before_any_heading() -> None:
    first = README.split("\n## ")[0]
    assert first.startswith("# specchat\n\n![")
    assert "scripts/chat\n```" in first


def test_the_table_of_methods_has_all_of_them() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*$", README.split("## What exact means")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall("`([^`]+)`", row)} - {"--method"} == {m.value for m in Method}


def test_files_that_documents_point_to_are_there() -> None:
    for document in ("README.md", "CONTRIBUTING.md", "BENCHMARKS.md", "CHANGELOG.md"):
        for link in LINKS.findall((ROOT / document).read_text(encoding="utf-8")):
            assert link.startswith("https://") or (ROOT / link).exists(), f"{document}: {link}"


def test_the_fit_check_that_is_shown_is_what_the_program_says(someone: Newcomer) -> None:
    shown = re.search(r"^```text\n\$ (specchat models fit .*?)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    # Of the packaged catalogue's entry, from dimensions that are known without its file.
    (someone.folder / "config" / "specchat" / "models.toml").rename(someone.folder / "models.toml")
    try:
        code, said = someone.run(shown[1] + " | cat")
    finally:
        (someone.folder / "models.toml").rename(someone.folder / "config" / "specchat" / "models.toml")
    assert code == 0, said
    assert said.strip() == shown[2].strip()
