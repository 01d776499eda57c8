"""`specchat models` as its users meet it: lists, facts, places and deletion; `specchat` without a model's name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.fit import pairs
from specchat.fit.shape import shape_of
from specchat.llama.gguf import read_header
from tests.command_line import CtrlC, Household, household, run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


def rows(*arguments: str) -> dict[str, list[str]]:
    code, out, err = run("models", "ls", *arguments)
    assert (code, err) == (0, "")
    return {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}


def cached(home: Household) -> list[str]:
    return sorted(path.name for path in home.cache.glob("models--*/snapshots/*/*") if path.exists())


def test_ls_says_what_is_here_what_drafts_and_what_fits_without_a_request(home: Household) -> None:
    assert run("models", "pull", "pair", "-y").code == 0
    home.hub.requests.clear()
    found = rows()
    assert found["pair"] == ["286 kB", "here", "draft model", "fits 512", "A pair"]
    assert found["other"][:3] == ["size unknown", "–", "draft model"]
    assert found["qwen3-14b"][:3] == ["9.6 GB", "–", "draft model"]
    assert found["qwen3-14b"][3].startswith(("fits ", "does not fit"))
    assert found["gemma-4-31b"][1:3] == ["–", "MTP head"]
    assert found["qwen3.8-27b"][1:4] == ["–", "MTP head in the file", "fit unknown"]
    assert home.hub.asked() == []
    assert next(iter(found)) == "qwen3.6-27b-mtp"
    assert set(rows("--here")) <= {"pair", "demo"}
    assert rows("--no-fit")["pair"][3] == "–"


def test_ls_as_json_tells_programs_the_same(home: Household) -> None:
    assert run("models", "pull", "pair", "-y").code == 0
    found = {row["id"]: row for row in json.loads(run("models", "ls", "--json").out)}
    assert found["pair"]["here"] is True
    assert found["pair"]["fits"] is True
    assert found["pair"]["exact"] is False
    assert found["pair"]["size_bytes"] == sum(
        (home.folder / name).stat().st_size for name in ("tiny-Q4_K_M.gguf", "draft-Q8_0.gguf")
    )
    assert found["qwen3.8-27b"]["fits"] is None


@pytest.mark.parametrize(("columns", "shown"), [(200, "A pair"), (60, "fits "), (45, "9.6 GB"), (12, "qwen3")])
def test_ls_on_a_terminal_keeps_to_its_width(home: Household, columns: int, shown: str) -> None:
    code, out, _ = run("models", "ls", terminal=True, columns=columns)
    assert code == 0
    assert shown in out
    assert max(map(len, out.splitlines())) <= columns


def test_nothing_here_is_said(home: Household) -> None:
    home.catalogue('[demo]\ntarget = { path = "/nowhere.gguf" }\n')
    assert run("models", "ls", "--here") == (
        0, "", "specchat: no model is on this machine. Get one: specchat models pull ID\n",
    )  # fmt: skip
    assert run("models", "ls", "--here", terminal=True).out == ""
    assert run("models", "ls", "--here", "--json").out == "[]\n"


def test_show_tells_what_the_catalogue_knows_and_where_it_lies(home: Household) -> None:
    code, out, err = run("models", "show", "pair")
    assert (code, err) == (0, "")
    facts = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert facts["target"] == "hf:user/tiny:tiny-Q4_K_M.gguf"
    assert facts["draft"] == "hf:user/draft:draft-Q8_0.gguf"
    assert (facts["here"], facts["license"]) == ("no", "MIT")
    assert run("models", "pull", "pair", "-y").code == 0
    after = json.loads(run("models", "show", "pair", "--json").out)
    assert after["here"] is True
    assert after["size_bytes"] > 250_000
    assert f"{after['path']}\n" == run("models", "path", "pair").out
    assert "drafted by MTP head in the file" in run("models", "show", "qwen3.6-27b-mtp").out
    gemma = dict(line.split(maxsplit=1) for line in run("models", "show", "gemma-4-12b").out.splitlines())
    assert gemma["draft"].endswith(":MTP/mtp-gemma-4-12b-it-Q8_0.gguf")
    local = run("models", "show", home.folder / "tiny-Q8_0.gguf").out
    assert str(home.folder / "tiny-Q8_0.gguf") in local


def test_path_of_what_is_not_here_names_the_command(home: Household) -> None:
    for name in ("pair", "hf:user/tiny:Q8_0"):
        code, out, err = run("models", "path", name)
        assert (code, out) == (3, "")
        assert err.endswith(f"is not on this machine yet. Get it with: specchat models pull {name}\n")


def test_names_can_not_steer_the_terminal(home: Household) -> None:
    home.catalogue('[x]\nname = "a\\u001b[31m\\nb"\nlicense = "\\u009b31m"\ntarget = { path = "/x.gguf" }\n')
    for arguments in (("ls", "--no-fit"), ("ls", "--json", "--no-fit"), ("show", "x"), ("path", "x")):
        code, out, err = run("models", *arguments)
        assert "\x1b" not in out + err
        assert "\x9b" not in out + err
        assert code in (0, 3)
    assert rows("--no-fit")["x"][4] == "a[31m b"


def test_rm_deletes_a_model_and_the_draft_that_nobody_else_uses(home: Household) -> None:
    for name in ("pair", "other"):
        assert run("models", "pull", name, "-y").code == 0
    code, out, err = run("models", "rm", "pair", "-y")
    assert (code, out) == (0, "")
    assert err == "specchat: draft-Q8_0.gguf stays: other uses it.\nspecchat: 164 kB freed.\n"
    assert cached(home) == ["draft-Q8_0.gguf", "tiny-Q8_0.gguf"]
    assert run("-m", "other", "-n", "3", "hello").code == 0
    assert run("models", "rm", "other", "-y").code == 0
    assert cached(home) == []
    code, _, err = run("models", "rm", "other", "-y")
    assert (code, err) == (3, "specchat: Nothing of other is on this machine to be deleted.\n")


def test_rm_asks_with_names_and_sizes(home: Household) -> None:
    assert run("models", "pull", "pair", "-y").code == 0
    code, _, err = run("models", "rm", "pair")
    assert code == 2
    assert "Delete tiny-Q4_K_M.gguf, draft-Q8_0.gguf (286 kB)? To do it without being asked:" in err
    assert "specchat models rm pair -y" in err
    code, _, err = run("models", "rm", "pair", typed=b"n\n")
    assert code == 0
    assert "Nothing was deleted." in err
    assert run("models", "rm", "pair", typed=b"", stderr=CtrlC("[y/N]")).code == 130
    assert len(cached(home)) == 2
    assert run("models", "rm", "pair", typed=b"y\n").code == 0
    assert cached(home) == []


def test_rm_of_a_repository_deletes_the_one_file_that_is_meant(home: Household) -> None:
    for quant in ("Q4_K_M", "Q8_0"):
        assert run("models", "pull", f"hf:user/tiny:{quant}", "-y").code == 0
    assert run("models", "rm", "hf:user/tiny:Q8_0", "-y").code == 0
    assert cached(home) == ["tiny-Q4_K_M.gguf"]
    assert run("-m", "hf:user/tiny:Q4_K_M", "-n", "3", "hello").code == 0


def test_rm_takes_what_an_interrupted_download_left(home: Household) -> None:
    left = home.cache / "models--user--tiny" / "blobs" / f"{'a' * 64}.specchat.incomplete"
    left.parent.mkdir(parents=True)
    left.write_bytes(bytes(2_000_000))
    code, _, err = run("models", "rm", "hf:user/tiny", "-y")
    assert (code, err) == (0, "specchat: 2.0 MB freed.\n")
    assert not left.exists()


@pytest.mark.demo
def test_rm_leaves_alone_what_did_not_come_from_a_hub(home: Household, demo: Path) -> None:
    for name in ("demo", str(home.folder / "tiny-Q8_0.gguf")):
        code, _, err = run("models", "rm", name, "-y")
        assert code == 3
        assert "did not come from a hub" in err
    assert demo.exists()
    assert (home.folder / "tiny-Q8_0.gguf").exists()


def test_a_catalogue_with_a_mistake_is_named(home: Household) -> None:
    home.catalogue('[x]\ntarget = { repo = "user/tiny", fiel = "a.gguf" }\n')
    for arguments in (("ls",), ("show", "x"), ("pull", "x"), ("rm", "x"), ("path", "x"), ("fit", "x")):
        code, out, err = run("models", *arguments)
        assert (code, out) == (2, "")
        assert "models.toml, [x.target]: fiel is no key of this table; did you mean file?" in err
    assert run("-n", "3", "hello").code == 2


def test_without_a_name_the_best_that_is_here_answers(home: Household) -> None:
    home.catalogue(
        '[best]\nrank = 1\ntarget = { repo = "user/tiny", file = "tiny-Q8_0.gguf" }\n'
        '[second]\nrank = 2\ntarget = { repo = "user/tiny", file = "tiny-Q4_K_M.gguf" }\n'
        '[demo]\ntarget = { path = "/nowhere.gguf" }\n'
    )
    assert run("models", "pull", "second", "-y").code == 0
    assert json.loads(run("--json", "-n", "3", "hello").out)["model"] == "second"
    assert run("models", "pull", "best", "-y").code == 0
    assert json.loads(run("--json", "-n", "3", "hello").out)["model"] == "best"


def test_with_nothing_here_the_best_is_offered_at_a_terminal_and_named_elsewhere(
    home: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.catalogue(
        '[best]\nname = "The best"\nrank = 1\nlicense = "MIT"\n'
        f'target = {{ repo = "user/tiny", file = "tiny-Q8_0.gguf", size = {size_of(home, "tiny-Q8_0.gguf")} }}\n'
        '[demo]\ntarget = { path = "/nowhere.gguf" }\n'
    )
    shape = shape_of(read_header(home.folder / "tiny-Q8_0.gguf"))
    monkeypatch.setattr(pairs, "known_shape", lambda name: shape if name == "tiny-Q8_0.gguf" else None)
    code, out, err = run("-n", "3", "hello")
    assert (code, out) == (3, "")
    assert "There is no model on this machine yet. The best that fits: specchat models pull best" in err
    code, out, err = run("-n", "3", "hello", typed=b"n\n")
    assert (code, out) == (3, "")
    assert "The best (MIT): download tiny-Q8_0.gguf (" in err
    assert "Nothing was downloaded." in err
    code, out, err = run("-n", "3", "hello", typed=b"y\n")
    assert code == 0, err
    assert out


def size_of(home: Household, name: str) -> int:
    return (home.folder / name).stat().st_size


@pytest.mark.demo
@pytest.mark.usefixtures("demo")
def test_the_demo_answers_meanwhile_and_the_best_is_named_at_a_terminal(home: Household) -> None:
    code, out, err = run("--json", "-n", "3", "hello")
    assert (code, json.loads(out)["model"]) == (0, "demo")
    assert err == ""
    code, _, err = run("-n", "3", "hello", typed=b"")
    assert code == 0
    assert "the demo answered, a very small model." in err
    assert home.hub.asked() == []
