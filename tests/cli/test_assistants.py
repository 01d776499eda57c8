"""A model whose trained head is a file of its own comes with it and drafts with it, without being told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.assistant_models import write_assistant, write_gemma4
from tests.command_line import Household, household, run

CATALOGUE = """
[gemma]
name = "A Gemma"
target = { repo = "user/gemma", file = "gemma-Q8_0.gguf" }
draft = { repo = "user/gemma", file = "mtp-gemma-Q8_0.gguf" }
drafter = "mtp"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        model, head = write_gemma4(tmp_path / "gemma.gguf"), write_assistant(tmp_path / "head.gguf")
        home.hub.add("user/gemma", **{"gemma-Q8_0__gguf": model, "mtp-gemma-Q8_0__gguf": head})
        home.catalogue(CATALOGUE)
        yield home


def test_it_is_fetched_with_its_model_and_drafts_by_itself(home: Household) -> None:
    assert "MTP head" in run("models", "ls", "--no-fit").out
    code, _, err = run("models", "pull", "gemma", "-y")
    assert code == 0, err
    assert {path.name for path in home.cache.glob("models--user--gemma/snapshots/*/*")} == {
        "gemma-Q8_0.gguf",
        "mtp-gemma-Q8_0.gguf",
    }
    asked = ("-m", "gemma", "-n", "24", "--temperature", "0", "--json")
    code, out, err = run(*asked, "--method", "mtp", "-k", "3", "hello")
    assert code == 0, err
    drafted, plain = json.loads(out), json.loads(run(*asked, "--method", "none", "hello").out)
    assert (drafted["method"], drafted["draft"]) == ("mtp", "mtp-gemma-Q8_0.gguf")
    assert drafted["speculative"]["drafted"] > 0
    assert drafted["token_ids"] == plain["token_ids"]
    # Unasked, it is one way to draft among others.
    free = json.loads(run(*asked, "hello").out)
    assert (free["method"], free["draft"]) == ("auto", "mtp-gemma-Q8_0.gguf")


def test_what_it_takes_is_told_before_it_is_here(home: Household) -> None:
    code, out, err = run("models", "fit", "gemma", "--json", "--vram", "8GiB", "--ctx", "512")
    assert code == 0, err
    told = json.loads(out)
    assert told["head"] == "mtp"
    assert told["draft"]["weights"] > 0
    assert told["draft"]["cache"] == 0
    code, out, _ = run("models", "fit", "gemma", "--vram", "8GiB", "--ctx", "512", terminal=True, columns=80)
    assert code == 0
    assert "head weights" in out


def test_why_it_drafts_no_trees_is_said(home: Household) -> None:
    assert run("models", "pull", "gemma", "-y").code == 0
    code, _, err = run("-m", "gemma", "-n", "4", "--method", "mtp", "--tree", "hello")
    assert code == 0
    assert "sliding window, so it can't read trees of drafts: chains are drafted." in err
