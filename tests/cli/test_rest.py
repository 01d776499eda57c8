"""`specchat rest` as its users meet it: data on stdout, sentences on stderr, exit codes."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from specchat.cli.environment import Environment
from specchat.cli.rest import rest
from specchat.retrieval import shelf

POEM = "the quick brown fox jumps over the lazy dog\n" * 3


@pytest.fixture(autouse=True)
def _own_shelf(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))


def run(*arguments: str | Path, terminal: bool = False) -> tuple[int, str, str]:
    out, err = BytesIO(), BytesIO()
    environment = Environment(None, out, err, terminal, terminal, terminal, {})
    code = rest([str(argument) for argument in arguments], obj=environment, standalone_mode=False)
    return int(code), out.getvalue().decode(), err.getvalue().decode()


@pytest.fixture
def poem(tmp_path: Path) -> Path:
    (tmp_path / "poem.txt").write_text(POEM)
    (tmp_path / "empty").write_text("")
    return tmp_path


def test_from_build_to_rm(poem: Path, tiny: Path) -> None:
    code, out, err = run("build", "poems", poem, "-m", tiny)
    path = shelf.path_of("poems")
    assert (code, out) == (0, f"{path}\n")
    assert err.startswith("specchat: poems: ")
    assert err.endswith("tokens of 1 file; skipped 1 file (1 empty).\n")
    assert err.count("\n") == 1

    code, out, err = run("ls")
    assert (code, err) == (0, "")
    name, tokens, size, model, where = out.rstrip("\n").split("\t")
    assert (name, where) == ("poems", str(path))
    assert tokens.endswith(" tokens")
    assert size == "2.5 kB"
    assert model == f"{tiny.stem} (286)"

    for named in (("poems",), ()):
        code, out, _ = run("query", *named, "brown fox jumps over the la", "-n", "5", "-m", tiny)
        assert code == 0
        lines = dict(line.split("\t") for line in out.splitlines())
        assert lines == {
            "datastores": "poems",
            "matched": f"16 of {lines['matched'].split()[2]} tokens",
            "occurrences": "3",
            "continuation": '"zy do"',
        }

    assert run("rm", "poems") == (0, "", "")
    assert not path.exists()
    code, out, err = run("ls")
    assert (code, out) == (0, "")
    assert "there are no datastores" in err


def test_progress_is_for_terminals(poem: Path, tiny: Path) -> None:
    code, _, err = run("build", "poems", poem, "-m", tiny, terminal=True)
    assert code == 0
    assert "\r" in err
    assert "100%" in err
    assert "sorting" in err
    code, _, err = run("build", "poems", poem, "-m", tiny, "--force", "-q")
    assert (code, err) == (0, "")


def test_wrong_uses_are_one_sentence(poem: Path, tiny: Path) -> None:
    assert run("build", "poems", poem, "-m", tiny)[0] == 0
    wrong: list[tuple[tuple[str | Path, ...], int, str]] = [
        (("build", "../up", poem, "-m", tiny), 2, "can't be the name"),
        (("build", "poems", poem, "-m", tiny), 2, "already"),
        (("build", "new", poem / "none", "-m", tiny), 2, "There is no file or directory"),
        (("build", "new", poem / "empty", "-m", tiny), 2, "Nothing to build"),
        (("build", "new", poem, "-m", poem / "none.gguf"), 3, "none.gguf"),
        (("build", "new", poem, "-m", poem / "poem.txt"), 3, "not a GGUF model"),
        (("rm", "nope"), 2, "There are: poems."),
        (("query", "nope", "text", "-m", tiny), 2, "There is no datastore 'nope'"),
        (("query", "a", "b", "c", "-m", tiny), 2, "quotes"),
    ]
    for arguments, expected, sentence in wrong:
        code, out, err = run(*arguments)
        assert (code, out) == (expected, ""), arguments
        assert sentence in err
        assert err.startswith("specchat: ")
        assert err.count("\n") == 1
    assert shelf.names() == ["poems"]


def test_another_model_is_refused_with_both_names(poem: Path, tiny: Path, tmp_path: Path) -> None:
    from tests.tiny_model import write_model

    other = write_model(tmp_path / "digits.gguf", letters="0123456789")
    assert run("build", "poems", poem, "-m", tiny)[0] == 0
    code, out, err = run("query", "poems", "the quick", "-m", other)
    assert (code, out) == (2, "")
    assert tiny.stem in err
    assert "digits" in err


def test_a_damaged_store_is_listed_as_such_and_can_go(poem: Path, tiny: Path) -> None:
    assert run("build", "poems", poem, "-m", tiny)[0] == 0
    path = shelf.path_of("poems")
    path.write_bytes(path.read_bytes()[:-5])
    code, out, err = run("ls")
    assert (code, out) == (0, "")
    assert "damaged" in err
    code, _, err = run("query", "poems", "the quick", "-m", tiny)
    assert code == 2
    assert "damaged" in err
    assert run("rm", "poems")[0] == 0


def test_text_from_a_store_can_not_steer_the_terminal(tmp_path: Path, tiny: Path) -> None:
    (tmp_path / "evil").write_text("press the \x1b[2Jred button\n" * 2)
    assert run("build", "evil", tmp_path / "evil", "-m", tiny)[0] == 0
    code, out, _ = run("query", "evil", "press the ", "-m", tiny, terminal=True)
    assert code == 0
    assert "red b" in out
    assert "\x1b" not in out


def test_a_disk_that_is_full_is_said(poem: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    code, _, err = run("build", "poems", poem, "-m", tiny)
    assert code == 4
    assert "No space left" in err
    assert shelf.names() == []
