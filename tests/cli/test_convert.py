"""`specchat models convert` as its users meet it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.llama.gguf import read_header
from tests.command_line import CtrlC, Household, household, run
from tests.heads.checkpoints import Published, eagle3, medusa
from tests.tiny_model import write_model


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        monkeypatch.chdir(tmp_path)
        yield home


def test_an_eagle3_checkpoint_becomes_a_file_named_after_it(home: Household) -> None:
    target = write_model(home.folder / "eight.gguf", layers=8)
    source = eagle3().write(home.folder / "My Head")
    code, out, err = run("models", "convert", source, "--target", target)
    assert (code, out) == (0, "My Head-eagle3-q8_0.gguf\n")
    assert err.startswith("specchat: eagle3 head, ")
    assert err.endswith(f"drafts 100 tokens. Draft with it: specchat -m {target} -d 'My Head-eagle3-q8_0.gguf'\n")
    assert read_header(home.folder / "My Head-eagle3-q8_0.gguf").architecture == "eagle3"


def test_a_medusa_checkpoint_becomes_the_file_that_is_asked_for(home: Household) -> None:
    source = medusa().write(home.folder / "heads") / "medusa_lm_head.safetensors"
    code, out, err = run(
        "models", "convert", source, "-o", "m.gguf", "--kind", "medusa", "--type", "f16", "--draft-vocab", "100", "-q",
        "--target", home.folder / "tiny-Q8_0.gguf",
    )  # fmt: skip
    assert (code, out, err) == (0, "m.gguf\n", "")
    header = read_header(home.folder / "m.gguf")
    assert header.of_architecture("head_count") == 3
    assert header.tensors["head.0.output.weight"].shape == (32, 100)
    assert header.tensors["head.0.output.weight"].kind == 1


@pytest.mark.parametrize(("kind", "checkpoint"), [("eagle", eagle3()), ("medusa", medusa())])
def test_what_was_converted_drafts_chains_and_trees_and_the_text_stays(
    home: Household, kind: str, checkpoint: Published
) -> None:
    target = write_model(home.folder / "eight.gguf", layers=8)
    assert (
        run("models", "convert", checkpoint.write(home.folder / "head"), "-o", "h.gguf", "--target", target).code == 0
    )
    drafting = ("--method", kind, "-d", "h.gguf", "-k", "3")
    found, told = {}, {}
    for name, options in {"plain": ("--method", "none"), "chain": drafting, "tree": (*drafting, "--tree")}.items():
        settings = ("--temperature", "0", "-n", "24", "--stats", "--json")
        code, out, told[name] = run("-m", target, *options, *settings, "Tell me.")
        assert code == 0
        found[name] = json.loads(out)
    assert found["chain"]["token_ids"] == found["tree"]["token_ids"] == found["plain"]["token_ids"]
    assert [found[name]["speculative"]["trees"] > 0 for name in found] == [False, False, True]
    assert found["chain"]["speculative"]["drafted"] > 0
    assert "of walked paths" in told["tree"]
    assert "of walked paths" not in told["chain"]


def test_the_target_may_be_one_of_the_catalogue(home: Household) -> None:
    source = medusa().write(home.folder / "heads")
    code, _, err = run("models", "convert", source, "--target", "other")
    assert (code, err.strip().endswith("Get it with: specchat models pull other")) == (3, True)
    assert run("models", "pull", "other", "-y").code == 0
    assert run("models", "convert", source, "--target", "other").code == 0


def test_what_goes_wrong_is_a_sentence_and_a_code(home: Household) -> None:
    source = medusa().write(home.folder / "heads")
    (home.folder / "old").mkdir()
    (home.folder / "old" / "medusa_lm_head.pt").write_bytes(b"\x80\x02.")
    (home.folder / "there.gguf").touch()
    for arguments, code, sentence in (
        (("old",), 3, "is a pickle"),
        (("nowhere",), 3, "There is no file or directory nowhere"),
        ((source, "--kind", "eagle3"), 3, "holds a head of kind medusa"),
        ((source, "-o", "there.gguf"), 3, "Use --force"),
        ((source, "-o", "no/such/place.gguf"), 1, "can't be written to no/such: No such file or directory"),
        ((source, "-o", "heads"), 3, "is there already"),
    ):
        ended = run("models", "convert", *arguments)
        assert (ended.code, ended.out) == (code, "")
        assert sentence in ended.err
        assert ended.err.count("\n") == 1
    assert run("models", "convert", source, "-o", "there.gguf", "--force").code == 0
    assert read_header(home.folder / "there.gguf").architecture == "medusa"


def test_ctrl_c_leaves_nothing_behind(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    source = medusa(tokens=5_000, heads=8).write(home.folder / "heads")
    monkeypatch.setattr("specchat.cli.convert._REDRAW_S", 0.0)
    before = set(home.folder.iterdir())
    stderr = CtrlC(" written")
    ended = run("models", "convert", source, stderr=stderr)
    assert (ended.code, ended.out) == (130, "")
    assert ended.err.endswith("Stopped; nothing was written.\x1b[0m\n")
    assert set(home.folder.iterdir()) == before


def test_a_full_disk_leaves_nothing_behind(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source = medusa().write(home.folder / "heads")
    before = set(home.folder.iterdir())
    monkeypatch.setattr("gguf.GGUFWriter.write_tensor_data", full)
    ended = run("models", "convert", source)
    assert ended.code == 4
    assert "No space left on device" in ended.err
    assert set(home.folder.iterdir()) == before
