"""Models named without an entry: what a name means, and which files of a repository are taken."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.locate import is_here, locate
from specchat.catalogue.reference import choose_files, hub_file, hub_query, named_file, quant_of, resolve, split_names
from specchat.catalogue.sources import HubFile, HubQuery, ListedFile, LocalFile

COMMIT = "0123456789abcdef0123456789abcdef01234567"

GEMMA = (
    "README.md",
    "gemma-4-12b-it-Q3_K_M.gguf",
    "gemma-4-12b-it-Q4_K_M.gguf",
    "gemma-4-12b-it-Q8_0.gguf",
    "gemma-4-12b-it-UD-Q4_K_M.gguf",
    "gemma-4-12b-it-UD-Q4_K_XL.gguf",
    "gemma-4-12b-it-imatrix.gguf",
    "imatrix_unsloth.gguf",
    "mmproj-F16.gguf",
    "mtp-gemma-4-12b-it.gguf",
    "MTP/gemma-4-12b-it-Q4_K_M-MTP.gguf",
)
GPT = ("gpt-oss-20b-mxfp4.gguf", "eagle3-gpt-oss-20b-Q8_0.gguf", "dflash-gpt-oss-20b-Q4_K_M.gguf")
LARGE = (
    "BF16/Large-BF16-00001-of-00002.gguf",
    "BF16/Large-BF16-00002-of-00002.gguf",
    "Q4_K_M/Large-00001-of-00003.gguf",
    "Q4_K_M/Large-00002-of-00003.gguf",
    "Q4_K_M/Large-00003-of-00003.gguf",
)


def listing(names: tuple[str, ...]) -> list[ListedFile]:
    files = [ListedFile(name, 1000 + place, f"{place:064x}") for place, name in enumerate(names)]
    # No answer may depend on the order of a list.
    random.Random(0).shuffle(files)
    return files


def chosen(names: tuple[str, ...], wanted: str | None) -> list[str]:
    return [file.name for file in choose_files(listing(names), wanted, "user/repo")]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("hf:user/repo", HubQuery("user/repo")),
        ("hf:user/Qwen2.5_x-GGUF:Q4_K_M", HubQuery("user/Qwen2.5_x-GGUF", None, "Q4_K_M")),
        ("hf:user/repo:Q4_K_M/m-Q4_K_M.gguf", HubQuery("user/repo", None, "Q4_K_M/m-Q4_K_M.gguf")),
        (f"hf:user/repo@{COMMIT}:Q8_0", HubQuery("user/repo", COMMIT, "Q8_0")),
        ("hf:user/repo@refs/pr/3", HubQuery("user/repo", "refs/pr/3")),
    ],
)
def test_a_reference_names_repository_revision_and_file_or_quantisation(text: str, query: HubQuery) -> None:
    assert hub_query(text) == query
    assert query.reference == text


@pytest.mark.parametrize(
    "text",
    [
        "hf:", "hf:repo", "hf:user/repo/file.gguf", "hf:user/repo:", "hf:user/repo@", "hf:user/re po",
        "hf:user/repo:a:b", "hf:../repo", "hf:user/..", "hf:user/repo:../../x.gguf", "hf:user/repo:/etc/x.gguf",
        "hf:user/repo:a\\..\\x.gguf", "hf:user/repo@../main",
    ],
)  # fmt: skip
def test_a_reference_of_another_form_is_answered_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ModelUnavailable, match=r"write hf:user/repo, hf:user/repo:Q4_K_M or hf:user/repo:file\.gguf"):
        Catalogue().find(text)


def test_a_reference_is_an_entry_of_its_own() -> None:
    entry = Catalogue().find("hf:user/repo:Q4_K_M")
    assert entry.id == "hf:user/repo:Q4_K_M"
    assert entry.target == HubQuery("user/repo", None, "Q4_K_M")
    assert entry.hub_sources == (entry.target,)
    assert (entry.draft, entry.license, entry.gated) == (None, "", False)


@pytest.mark.parametrize(
    ("names", "wanted", "file"),
    [
        (GEMMA, None, "gemma-4-12b-it-Q4_K_M.gguf"),
        (GEMMA, "Q8_0", "gemma-4-12b-it-Q8_0.gguf"),
        (GEMMA, "q8_0", "gemma-4-12b-it-Q8_0.gguf"),
        (GEMMA, "UD-Q4_K_M", "gemma-4-12b-it-UD-Q4_K_M.gguf"),
        (GEMMA, "Q4_K_XL", "gemma-4-12b-it-UD-Q4_K_XL.gguf"),
        (GEMMA, "mtp-gemma-4-12b-it.gguf", "mtp-gemma-4-12b-it.gguf"),
        (GEMMA, "gemma-4-12b-it-Q4_K_M-MTP.gguf", "MTP/gemma-4-12b-it-Q4_K_M-MTP.gguf"),
        (GEMMA, "Gemma-4-12B-it-q8_0.GGUF", "gemma-4-12b-it-Q8_0.gguf"),
        (GPT, None, "gpt-oss-20b-mxfp4.gguf"),
        (GPT, "MXFP4", "gpt-oss-20b-mxfp4.gguf"),
        (("m.Q2_K.gguf", "m.Q8_0.gguf"), None, "m.Q8_0.gguf"),
        (("m.i1-Q4_K_M.gguf", "m.i1-Q4_K_S.gguf"), "Q4_K_M", "m.i1-Q4_K_M.gguf"),
        (("model.gguf",), None, "model.gguf"),
    ],
)
def test_one_file_is_chosen_and_never_what_only_accompanies_the_model(
    names: tuple[str, ...], wanted: str | None, file: str
) -> None:
    assert chosen(names, wanted) == [file]


@pytest.mark.parametrize("wanted", [None, "Q4_K_M", "Large-00001-of-00003.gguf", "Q4_K_M/Large-00003-of-00003.gguf"])
def test_a_split_model_is_taken_whole_and_in_order(wanted: str | None) -> None:
    assert chosen(LARGE, wanted) == list(LARGE[2:])


@pytest.mark.parametrize(
    ("names", "wanted", "answer"),
    [
        (GEMMA, "Q4_K_S", r"There is no Q4_K_S in user/repo\. Did you mean Q4_K_M\?"),
        (GEMMA, "W99", "There are: Q3_K_M, Q4_K_M, Q8_0, UD-Q4_K_M, UD-Q4_K_XL."),
        (GEMMA, "Q4_K", "There is no Q4_K in user/repo"),
        (GEMMA, "gemma-4-12b-it-Q5_K_M.gguf", r"no file gemma-4-12b-it-Q5_K_M\.gguf in user/repo\. Did you mean gemma"),
        (
            ("a-Q2_K.gguf", "a-Q3_K_M.gguf"),
            None,
            r"one must be chosen: a-Q2_K\.gguf, a-Q3_K_M\.gguf in .* such as hf:user/repo:a-Q2_K\.gguf",
        ),
        (("a-Q4_K_M.gguf", "b-Q4_K_M.gguf"), "Q4_K_M", r"Q4_K_M could be a-Q4_K_M\.gguf, b-Q4_K_M\.gguf in user/repo"),
        (("x/a.gguf", "y/a.gguf"), "a.gguf", r"a\.gguf could be "),
        (LARGE[2:4], None, r"is not whole: Q4_K_M/Large-00003-of-00003\.gguf is missing"),
        (("README.md", "mmproj-F16.gguf", "model.safetensors"), None, "There is no GGUF model in user/repo"),
        ((), "Q4_K_M", "There is no GGUF model in user/repo"),
        ((), "a.gguf", r"There is no file a\.gguf in user/repo\.$"),
        (("../a-Q4_K_M.gguf",), None, "There is no GGUF model in user/repo"),
    ],
)
def test_where_nothing_or_too_much_matches_the_answer_says_what_there_is(
    names: tuple[str, ...], wanted: str | None, answer: str
) -> None:
    with pytest.raises(ModelUnavailable, match=answer):
        chosen(names, wanted)


def test_a_resolved_query_pins_commit_size_and_hash_of_every_part() -> None:
    files = [ListedFile(name, 10 + place, f"{place:064x}") for place, name in enumerate(LARGE)]
    model = resolve(HubQuery("user/repo", "main", "BF16"), files, COMMIT)
    assert model.file == LARGE[0]
    assert [part.file for part in model.files] == list(LARGE[:2])
    assert [part.size for part in model.files] == [10, 11]
    assert [part.sha256 for part in model.files] == [f"{0:064x}", f"{1:064x}"]
    assert all(part.revision == COMMIT and part.pinned for part in model.files)
    assert model.total_size == 21


def test_a_file_named_outright_needs_no_list() -> None:
    assert named_file(HubQuery("user/repo", None, "a.gguf")) == HubFile("user/repo", "a.gguf")
    assert named_file(HubQuery("user/repo", None, "Q4_K_M")) is None
    model = named_file(HubQuery("user/repo", COMMIT, "a-00002-of-00002.gguf"))
    assert model == hub_file("user/repo", "a-00001-of-00002.gguf", COMMIT)
    assert model is not None
    assert [part.file for part in model.files] == ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"]
    assert model.total_size is None


def test_only_the_numbering_of_split_files_makes_parts() -> None:
    assert split_names("a.gguf") == ("a.gguf",)
    assert split_names("a-1-of-2.gguf") == ("a-1-of-2.gguf",)
    assert split_names("a-00001-of-00000.gguf") == ("a-00001-of-00000.gguf",)
    assert split_names("d/a-00003-of-00002.gguf") == ("d/a-00001-of-00002.gguf", "d/a-00002-of-00002.gguf")


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("Qwen3-14B-Q4_K_M.gguf", "Q4_K_M"),
        ("qwen2.5-coder-14b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("Qwen3.8-27B-UD-IQ4_XS.gguf", "UD-IQ4_XS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("BF16/Large-BF16-00001-of-00002.gguf", "BF16"),
        ("model.gguf", None),
    ],
)
def test_a_file_s_name_tells_its_quantisation(name: str, quant: str | None) -> None:
    assert quant_of(name) == quant


def test_any_part_of_a_split_file_on_this_machine_names_the_model(tmp_path: Path) -> None:
    first, second = tmp_path / "m-00001-of-00002.gguf", tmp_path / "m-00002-of-00002.gguf"
    first.touch()
    entry = Catalogue().find(str(second))
    assert entry.target == LocalFile(first)
    with pytest.raises(ModelUnavailable, match=r"There is no file .*m-00002-of-00002\.gguf"):
        locate(entry.target)
    second.touch()
    assert locate(entry.target) == first


def test_a_repository_written_like_a_path_is_answered_with_the_form_for_the_hub() -> None:
    with pytest.raises(ModelUnavailable, match="For a model of the hub, write hf:user/repo"):
        locate(Catalogue().find("user/repo").target)


class TestCached:
    """What is in the hub's cache is found without a request."""

    @pytest.fixture
    def snapshot(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        repository = tmp_path / "models--user--repo"
        (repository / "refs").mkdir(parents=True)
        (repository / "refs" / "main").write_text(COMMIT)
        snapshot = repository / "snapshots" / COMMIT
        snapshot.mkdir(parents=True)
        return snapshot

    def test_a_file_that_is_not_there_comes_with_the_command_that_gets_it(self, snapshot: Path) -> None:
        source = HubFile("user/repo", "a.gguf", size=9_001_752_960)
        with pytest.raises(ModelUnavailable) as caught:
            locate(source, "mine")
        assert str(caught.value) == (
            "a.gguf of user/repo (9.0 GB) is not on this machine yet. Get it with: specchat models pull mine"
        )
        with pytest.raises(ModelUnavailable, match=r"specchat models pull hf:user/repo:a\.gguf$"):
            locate(source)
        with pytest.raises(ModelUnavailable, match=r"specchat models pull hf:user/repo$"):
            locate(HubQuery("user/repo"))
        assert not is_here(source)

    def test_a_file_is_found_by_name_by_quantisation_and_by_default(self, snapshot: Path) -> None:
        path = snapshot / "a-Q4_K_M.gguf"
        path.write_bytes(b"GGUF")
        for wanted in ("a-Q4_K_M.gguf", "Q4_K_M", None):
            assert locate(HubQuery("user/repo", None, wanted)) == path
        assert is_here(HubFile("user/repo", "a-Q4_K_M.gguf", size=4))
        assert not is_here(HubFile("user/repo", "a-Q4_K_M.gguf", size=5))
        assert not is_here(HubQuery("user/repo", None, "Q8_0"))

    def test_a_split_model_is_there_when_all_its_parts_are(self, snapshot: Path) -> None:
        model = hub_file("user/repo", "a-00001-of-00002.gguf")
        (snapshot / "a-00001-of-00002.gguf").write_bytes(b"GGUF")
        assert not is_here(model)
        assert not is_here(HubQuery("user/repo"))
        (snapshot / "a-00002-of-00002.gguf").write_bytes(b"GGUF")
        assert locate(model) == locate(HubQuery("user/repo")) == snapshot / "a-00001-of-00002.gguf"
