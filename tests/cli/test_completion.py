"""TAB in a shell: verbs, options, and the names of models, methods, conversations and datastores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat.message import Role
from specchat.chat.store import Store, store_path
from specchat.retrieval import shelf
from tests.command_line import Household, household

PROBE = (
    "import sys; sys.argv[0] = 'specchat'\n"
    "from specchat.main import run\n"
    "try: run()\n"
    "finally: print([m for m in ('llama_cpp', 'numpy', 'textual', 'huggingface_hub') if m in sys.modules],"
    " file=sys.stderr)"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


def tab(line: str, shell: str = "bash") -> list[str]:
    """What the shell offers for the last word of `line`."""
    words = line.split()
    variables = {
        "_SPECCHAT_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) if line.endswith(" ") else len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **variables},
    )  # fmt: skip
    assert done.stderr.strip() == "[]", done.stderr
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_the_first_word_is_a_verb_or_an_option_of_a_question(home: Household) -> None:
    assert {"models", "chats", "bench", "doctor"} <= set(tab("specchat "))
    assert tab("specchat mod") == ["models"]
    assert "ask" not in tab("specchat a")
    assert tab("specchat --met") == ["--method"]
    assert "--install-completion" in tab("specchat --ins")
    assert tab("specchat models f") == ["fit"]


def test_models_are_those_of_the_catalogue_the_users_own_too(home: Household) -> None:
    for line in (
        "specchat -m ",
        "specchat models fit ",
        "specchat calibrate ",
        "specchat bench ",
        "specchat rest query -m ",
    ):
        assert {"pair", "other", "demo", "qwen3-14b"} <= set(tab(line)), line
    assert tab("specchat models pull qwen3-14") == ["qwen3-14b"]
    assert tab("specchat -d no") == ["none"]
    # A path is left to the shell.
    assert tab("specchat -m ./mod") == []


def test_methods_rules_and_classes_are_named(home: Household) -> None:
    assert {"auto", "suffix", "draft", "none"} <= set(tab("specchat --method "))
    assert tab("specchat --accept c") == ["coupled"]
    assert "multi-turn" in tab("specchat bench --class m")


def test_conversations_are_offered_the_latest_first_with_their_titles(home: Household) -> None:
    assert tab("specchat chats show ") == []
    ids = []
    with Store(store_path()) as store:
        for title in ("Bread", "Sleep: ten tips"):
            chat = store.new_chat(model="demo", title=title)
            store.add(chat.id, None, Role.USER, "hello")
            ids.append(chat.id)
    for line in ("specchat chats show ", "specchat --chat ", "specchat chats rm ", "specchat chats export "):
        assert tab(line) == ids[::-1], line
    assert tab(f"specchat chats rm {ids[0]} {ids[1][:20]}") == [ids[1]]
    assert tab("specchat chats show ", "fish") == [f"{ids[1]}\tSleep: ten tips", f"{ids[0]}\tBread"]


def test_datastores_are_offered(home: Household) -> None:
    shelf.directory().mkdir(parents=True)
    for name in ("notes", "code"):
        (shelf.directory() / f"{name}{shelf.SUFFIX}").touch()
    assert tab("specchat rest rm ") == ["code", "notes"]


def test_a_broken_catalogue_or_store_offers_nothing_and_says_nothing(home: Household) -> None:
    home.catalogue("[broken")
    assert tab("specchat -m ") == []
    store_path().parent.mkdir(parents=True, exist_ok=True)
    store_path().write_text("no database")
    assert tab("specchat chats show ") == []
    assert store_path().read_text() == "no database"
