"""`specchat chats` as its users meet it: data on stdout, sentences on stderr, exit codes."""

from __future__ import annotations

import json
import re
import sqlite3
from io import BytesIO
from pathlib import Path

import pytest

from specchat.chat.continuing import record
from specchat.chat.conversation import Chat
from specchat.chat.session import past_text_directory
from specchat.chat.store import Store, store_path
from specchat.cli.chats import chats
from specchat.cli.environment import Environment
from specchat.drafters.past_text import PastText


@pytest.fixture(autouse=True)
def _own_data(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


def run(*arguments: str | Path, terminal: bool = False, no_color: bool = False) -> tuple[int, str, str]:
    out, err = BytesIO(), BytesIO()
    variables = {"NO_COLOR": "1"} if no_color else {}
    environment = Environment(None, out, err, terminal, terminal, terminal, variables)
    code = chats([str(argument) for argument in arguments], obj=environment, standalone_mode=False)
    return int(code), out.getvalue().decode(), err.getvalue().decode()


def ask(question: str, answer: str, *, system: str = "", reasoning: str = "", model: str = "demo") -> Chat:
    with Store(store_path()) as store:
        chat = store.new_chat(model=model, system=system)
        record(store, chat, question, answer, model=model, reasoning=reasoning, statistics={"tokens": 3, "alpha": 0.5})
        return store.chat(chat.id)


HOSTILE = "\x1b[2J\x9b31mred\x07\ttab\r\n<b>[red]"


def test_ls_shows_the_latest_first() -> None:
    one, two = ask("What is RoPE?", "A rotation."), ask("猫 and cats", "Meow.", model="a-long-model-name")
    code, out, err = run("ls")
    assert (code, err) == (0, "")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [[row[0], *row[2:]] for row in rows] == [
        [two.id, "2", "a-long-model-name", "猫 and cats"],
        [one.id, "2", "demo", "What is RoPE?"],
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", rows[0][1])
    assert run("ls", "-n", "1")[1].count("\n") == 1
    assert [line.split("\t")[0] for line in run("ls", "rope")[1].splitlines()] == [one.id]
    listed = json.loads(run("ls", "--json")[1])
    assert [(found["id"], found["title"], found["messages"]) for found in listed] == [
        (two.id, "猫 and cats", 2), (one.id, "What is RoPE?", 2),
    ]  # fmt: skip


def test_ls_is_a_table_on_a_terminal() -> None:
    one, two = ask("What is RoPE?", "A rotation."), ask("猫", "Meow.", model="模型 of ten")
    code, out, _ = run("ls", terminal=True)
    assert code == 0
    first, second = out.splitlines()
    assert first.startswith(two.id[:8] + "  ")
    assert second.startswith(one.id[:8] + "  ")
    assert one.id not in out
    assert first.endswith("  2  模型 of ten  猫")
    assert second.endswith("  2  demo         What is RoPE?")


def test_nothing_stored_is_said() -> None:
    assert run("ls") == (0, "", "specchat: there are no conversations yet.\n")
    ask("q", "a")
    assert run("ls", "zebra") == (0, "", "specchat: no conversation has these words.\n")
    assert run("search", "zebra") == (0, "", "specchat: no message has these words.\n")
    assert run("ls", "zebra", "--json") == run("search", "zebra", "--json") == (0, "[]\n", "")


def test_show_prints_the_conversation() -> None:
    chat = ask("What is *RoPE*?\nAnd why?", "A **rotation**.\n", system="Be brief.", reasoning="Hm.")
    code, out, err = run("show", chat.id[:8])
    assert (code, err) == (0, "")
    assert out == (
        "What is *RoPE*?:\n\nSystem:\nBe brief.\n\nYou:\nWhat is *RoPE*?\nAnd why?\n\n"
        "demo:\nHm.\nA **rotation**.\n3 tokens · α 0.50 · stop\n"
    )
    assert run("show", chat.id, terminal=True, no_color=True)[1] == out
    assert "\x1b[1mYou\x1b[0m\n" in run("show", chat.id, terminal=True)[1]
    shown = json.loads(run("show", chat.id, "--json")[1])
    assert (shown["id"], len(shown["messages"])) == (chat.id, 2)


def test_search_finds_messages_by_any_words() -> None:
    chat = ask("What is RoPE?", 'In C++, `NEAR(x` is "odd".')
    code, out, err = run("search", "near(x", "odd")
    assert (code, err) == (0, "")
    found, when, role, title, text = out.rstrip("\n").split("\t")
    assert (found, role, title, text) == (chat.id, "assistant", "What is RoPE?", 'In C++, `NEAR(x` is "odd".')
    assert when.endswith("+00:00")
    assert run("search", '"', "-n", "1")[1].count("\n") == 1
    hits = json.loads(run("search", "rope", "--json")[1])
    assert [(hit["chat_id"], hit["role"], hit["snippet"]) for hit in hits] == [(chat.id, "user", "What is RoPE?")]
    assert run("search", "rope", terminal=True)[1].startswith(chat.id[:8] + "  ")


def test_export_writes_markdown_or_json(tmp_path: Path) -> None:
    chat = ask("What is RoPE?", "A rotation.")
    code, out, err = run("export", chat.id)
    assert (code, err) == (0, "")
    assert out.startswith("# What is RoPE?\n\n- Model: demo\n")
    assert run("export", chat.id, tmp_path / "a.md") == (0, "", "")
    assert (tmp_path / "a.md").read_text() == out
    assert run("export", chat.id, tmp_path / "a.json") == (0, "", "")
    tree = (tmp_path / "a.json").read_text()
    assert json.loads(tree)["id"] == chat.id
    assert run("export", chat.id, "--format", "json")[1] == tree
    code, _, err = run("export", chat.id, tmp_path / "a.md", "--format", "json")
    assert code == 2
    assert "Replace it with --force" in err
    assert (tmp_path / "a.md").read_text() == out
    assert run("export", chat.id, tmp_path / "a.md", "--format", "json", "--force")[0] == 0
    assert (tmp_path / "a.md").read_text() == tree
    code, _, err = run("export", chat.id, tmp_path / "none" / "a.md")
    assert (code, err) == (
        2, f"specchat: The conversation can't be written to {tmp_path}/none/a.md: No such file or directory.\n",
    )  # fmt: skip


def test_rm_deletes_them_and_what_drafts_remember() -> None:
    one, two, three = ask("one", "a"), ask("two", "b"), ask("three", "c")
    for vocabulary in ("first", "second"):
        kept = PastText(past_text_directory(), vocabulary)
        for chat in (one, two, three):
            kept.add(chat.id, [1, 2, 3])
        kept.close()
    code, out, err = run("rm", one.id, "nobody")
    assert (code, out) == (2, "")
    assert "There is no conversation 'nobody'" in err
    assert len(run("ls")[1].splitlines()) == 3
    assert run("rm", one.id[:12], two.id, one.id) == (0, "", "specchat: deleted one.\nspecchat: deleted two.\n")
    assert [line.split("\t")[0] for line in run("ls")[1].splitlines()] == [three.id]
    for vocabulary in ("first", "second"):
        kept = PastText(past_text_directory(), vocabulary)
        assert list(kept.revisions()) == [three.id]
        kept.close()


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_stored_can_steer_the_terminal(terminal: bool) -> None:
    chat = ask(HOSTILE, HOSTILE, system=HOSTILE, reasoning=HOSTILE, model=f"m{HOSTILE}")
    with sqlite3.connect(store_path()) as connection:
        # As another program may have left it.
        connection.execute("UPDATE chat SET title = ?", (HOSTILE,))
        connection.execute("UPDATE node SET finish_reason = ?", (HOSTILE,))
    connection.close()
    for arguments in (
        ("ls",), ("ls", "--json"), ("search", "red"), ("search", "red", "--json"), ("show", chat.id),
        ("show", chat.id, "--json"), ("export", chat.id), ("export", chat.id, "--format", "json"), ("rm", chat.id),
    ):  # fmt: skip
        code, out, err = run(*arguments, terminal=terminal, no_color=True)
        assert code == 0, arguments
        assert "red" in out + err
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", out + err), arguments
        if arguments[0] in ("ls", "search"):
            assert out.count("\n") == (2 if arguments == ("search", "red") else 1)


def test_a_wrong_id_is_one_sentence() -> None:
    ask("q", "a")
    for verb in ("show", "export", "rm"):
        code, out, err = run(verb, "nobody")
        assert (code, out) == (2, "")
        assert err == "specchat: There is no conversation 'nobody'. See them with: specchat chats ls\n"


def test_a_store_in_trouble_is_one_sentence() -> None:
    ask("q", "a")
    store_path().write_bytes(b"no database" * 100)
    code, out, err = run("ls")
    assert (code, out) == (0, "")
    assert err.startswith(
        f"specchat: there are no conversations yet.\nspecchat: The conversations in {store_path()} could"
    )
    store_path().unlink()
    store_path().mkdir()
    code, out, err = run("ls")
    assert (code, out) == (1, "")
    assert err.startswith(f"specchat: Conversations can't be kept in {store_path()}: Is a directory.")
    assert err.count("\n") == 1
