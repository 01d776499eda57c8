"""One question: what of it is kept, which model goes on, what the command line must not drop in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from specchat import main
from specchat.chat.continuing import record
from specchat.chat.conversation import Node
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import StoreFull
from specchat.cli.app import app, chat_alone
from specchat.cli.environment import Environment
from specchat.cli.recording import Recording
from tests.command_line import Ended, Household, household, run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


def local(home: Household, id: str, name: str, file: str = "tiny-Q8_0.gguf") -> str:
    return f'[{id}]\nname = "{name}"\ntarget = {{ path = "{home.folder / file}" }}\n'


def at_terminal(*arguments: str | Path) -> Ended:
    return run(*arguments, "-n", "2", typed=b"", terminal=True)


def latest_thread() -> list[Node]:
    with Store(store_path()) as store:
        latest = store.latest()
        return [] if latest is None else store.thread(latest.id)


def test_a_conversation_goes_on_with_the_model_whose_name_the_chat_kept(home: Household) -> None:
    home.catalogue(local(home, "one", "The First") + local(home, "two", "The Second", "draft-Q8_0.gguf"))
    with Store(store_path()) as store:
        record(store, store.new_chat(model="one"), "q", "a", model="The Second")
    code, _, err = run("-c", "-n", "2", "more")
    assert (code, err) == (0, "")
    assert [node.model for node in latest_thread()] == ["", "The Second", "", "two"]


def test_a_conversation_with_a_file_goes_on_with_that_file_from_anywhere(
    home: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    assert at_terminal("-m", "tiny-Q8_0.gguf", "hello").code == 0
    monkeypatch.chdir("/")
    code, _, err = run("-c", "-n", "2", "more")
    assert (code, err) == (0, "")
    assert {node.model for node in latest_thread()} == {"", str(home.folder / "tiny-Q8_0.gguf")}


def test_where_the_model_of_a_conversation_is_gone_it_is_said_which_one_goes_on(home: Household) -> None:
    home.catalogue(f"{local(home, 'one', 'The First')}rank = 1\n")
    with Store(store_path()) as store:
        record(store, store.new_chat(model="lost"), "q", "a", model="A Lost One")
    code, _, err = run("-c", "-n", "2", "more")
    assert code == 0
    assert err == "specchat: A Lost One, which answered last, was not found here. The First goes on.\n"


def test_that_conversations_could_not_be_read_is_said(home: Household) -> None:
    store_path().parent.mkdir(parents=True)
    store_path().write_bytes(b"no database" * 100)
    code, _, err = run("-c", "more")
    assert code == 2
    assert "could not be read: the file is damaged. It is now called chats.db.damaged-" in err
    assert "There is no conversation to continue yet." in err
    assert err.count("\n") == 1
    store_path().write_bytes(b"no database" * 100)
    code, _, err = at_terminal("-m", home.folder / "tiny-Q8_0.gguf", "hello")
    assert code == 0
    assert "could not be read: the file is damaged." in err


def test_a_question_that_can_not_be_asked_is_not_kept(home: Household) -> None:
    home.catalogue(local(home, "one", "The First"))
    assert at_terminal("-m", "one", "hello").code == 0
    kept = latest_thread()
    assert [node.text for node in kept][:1] == ["hello"]
    assert at_terminal("-m", "one", "--ctx", "64", "far too long " * 100).code == 5
    assert latest_thread() == kept


def test_a_full_disk_costs_the_record_not_the_answer(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> str:
        raise StoreFull("There is no room left.")

    monkeypatch.setattr(Recording, "begin", full)
    code, out, err = at_terminal("-m", home.folder / "tiny-Q8_0.gguf", "hello")
    assert (code, out[-1:]) == (0, "\n")
    assert "There is no room left. The answer is not kept." in err


def open_chat(*arguments: str) -> tuple[int, str, list[Mapping[str, Any]]]:
    opened: list[Mapping[str, Any]] = []

    def chat(options: Mapping[str, Any], _prompt: str) -> int:
        opened.append(options)
        return 0

    err = BytesIO()
    environment = Environment(BytesIO(), BytesIO(), err, True, True, True, {"NO_COLOR": "1"}, chat)
    code = app(list(arguments), obj=environment, standalone_mode=False)
    return int(code or 0), err.getvalue().decode(), opened


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-k", "1O"], "--draft-tokens is '1O', but it must be a number from 0 to 64, or auto."),
        (["-k", "-1"], "--draft-tokens is '-1', but it must be a number from 0 to 64, or auto."),
        (["-k", "65"], "--draft-tokens is '65', but it must be a number from 0 to 64, or auto."),
        (["--logit-bias", "5=1"], "The chat takes no --logit-bias."),
        (["-c", "--chat", "abc"], "--continue takes the latest conversation and --chat names one"),
    ],
)
def test_the_chat_refuses_what_it_would_not_do(arguments: list[str], words: str) -> None:
    code, err, opened = open_chat(*arguments)
    assert (code, opened) == (2, [])
    assert words in err


@pytest.mark.parametrize(("given", "depth"), [("7", 7), ("0", 0), ("auto", None)])
def test_the_chat_drafts_as_deep_as_it_is_told(given: str, depth: int | None) -> None:
    code, _, (options,) = open_chat("-k", given)
    assert code == 0
    assert main._load(options).draft_tokens == depth


@pytest.mark.parametrize("model", [None, "demo"])
def test_without_a_word_the_chat_opens_as_it_does_with_every_option_at_its_default(
    model: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short way round the parser leads to the same place."""
    monkeypatch.delenv("SPECCHAT_MODEL", raising=False)
    if model is not None:
        monkeypatch.setenv("SPECCHAT_MODEL", model)
    opened: list[Mapping[str, Any]] = []

    def chat(options: Mapping[str, Any], _prompt: str) -> int:
        opened.append(options)
        return 0

    assert chat_alone(Environment(BytesIO(), BytesIO(), BytesIO(), True, True, True, {}, chat)) == 0
    _, _, (parsed,) = open_chat()
    (alone,) = opened
    assert main._load(alone) == main._load(parsed)
    assert main._answers(alone) == main._answers(parsed)
    assert {name: value for name, value in alone.items() if name in parsed and value and not parsed[name]} == {}
