"""Which models there are, which is taken unasked, what may be deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.head_kind import HeadKind
from specchat.catalogue.hub import Hub, Patience
from specchat.catalogue.hub_errors import HubError
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile
from specchat.chat import models as room
from specchat.chat.models import (
    Models,
    as_it_is_here,
    files_to_fetch,
    is_complete,
    missing,
    settled,
    size_of,
)
from specchat.chat.removal import removal_of
from specchat.engine.settings import EngineSettings
from specchat.fit import check
from specchat.fit.memory import Memory
from tests.command_line import Household, household, run

NOWHERE = LocalFile(Path("/nowhere.gguf"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    with household(tmp_path, monkeypatch) as home:
        yield home


@pytest.fixture
def models(home: Household) -> Iterator[Models]:
    found = models_of({})
    yield found
    found.close()


def models_of(entries: dict[str, Entry]) -> Models:
    catalogue = Catalogue()
    catalogue.entries = {"demo": Entry("demo", "demo", NOWHERE), **entries}
    return Models(catalogue)


def local(home: Household, id: str, rank: int, file: str = "tiny-Q8_0.gguf") -> Entry:
    return Entry(id, id, LocalFile(home.folder / file), rank=rank)


def client() -> Hub:
    return Hub(patience=Patience(5.0, stall_s=2.0, tries=2, first_pause_s=0.01))


def test_the_first_in_rank_that_is_here_and_fits_is_taken(home: Household) -> None:
    absent = Entry("absent", "absent", HubFile("user/tiny", "tiny-Q8_0.gguf"), rank=1)
    unranked = replace(local(home, "unranked", 0), rank=None)
    entries = {e.id: e for e in (absent, unranked, local(home, "third", 3), local(home, "second", 2))}
    models = models_of(entries)
    chosen = models.default()
    assert chosen is not None
    assert chosen.id == "second"
    assert models.chosen(None).id == "second"
    assert models.chosen("third").id == "third"
    assert home.hub.asked() == []


@pytest.mark.parametrize(("heads", "taken"), [(True, "headed"), (False, "plain")])
def test_a_model_with_a_trained_head_comes_first_only_where_heads_can_be_used(
    home: Household, monkeypatch: pytest.MonkeyPatch, heads: bool, taken: str
) -> None:
    monkeypatch.setattr(check.Check, "heads", heads)
    headed = replace(local(home, "headed", 1), rank_without_head=3, drafter=HeadKind.MTP)
    models = models_of({"headed": headed, "plain": local(home, "plain", 2)})
    assert (found := models.default()) is not None
    assert found.id == taken
    models.close()


def test_what_does_not_fit_is_passed_over(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "host", lambda: Memory("CPU", 1 << 30, 9 << 19, 0, 0, False))
    large = replace(local(home, "large", 1), context=100_000)
    models = models_of({"large": large, "small": local(home, "small", 2, "draft-Q8_0.gguf")})
    chosen = models.default()
    assert chosen is not None
    assert chosen.id == "small"


def test_a_model_too_slow_for_a_cpu_is_passed_over(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_BEARABLE_ON_CPU", 170_000)
    models = models_of({"slow": local(home, "slow", 1), "quick": local(home, "quick", 2, "tiny-Q4_K_M.gguf")})
    chosen = models.default()
    assert chosen is not None
    assert chosen.id == "quick"
    assert models.chosen("slow").id == "slow"


def test_a_model_whose_draft_is_not_here_is_judged_and_taken_without_it(home: Household) -> None:
    entry = replace(local(home, "one", 1), draft=HubFile("user/draft", "draft-Q8_0.gguf"))
    models = models_of({"one": entry})
    assert models.verdict(entry) is None
    assert as_it_is_here(entry).draft is None
    chosen = models.default()
    assert chosen is not None
    assert chosen.id == "one"
    cut = replace(entry, draft=CutFromTarget((1,)))
    assert as_it_is_here(cut) == cut


def test_without_any_model_the_error_says_what_to_get(models: Models) -> None:
    assert models.default() is None
    with pytest.raises(ModelUnavailable, match=r"There is no model on this machine yet\..* specchat models ls"):
        models.chosen(None)


def test_models_that_are_here_but_would_not_do_are_named(home: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    unranked = replace(local(home, "mine", 0), rank=None)
    models = models_of({"mine": unranked, "large": replace(local(home, "large", 1), context=100_000)})
    with_gpu = Memory("GPU", 1 << 30, 9 << 19, 0, 0, True)
    monkeypatch.setattr(check, "host", lambda: Memory("CPU", 1 << 30, 9 << 19, 0, 0, False))
    assert models.why_no_default() == (
        "None of the models here (large) is quick enough without a GPU and fits the free memory. Name one with -m."
    )
    with pytest.raises(ModelUnavailable, match=r"None of the models here \(large\) .* specchat models ls"):
        models.chosen(None)
    models.check.memory = with_gpu
    assert "None of the models here (large) fits the free memory." in models.why_no_default()
    assert "(mine) has a rank in models.toml" in models_of({"mine": unranked}).why_no_default()


def test_the_list_has_those_that_may_be_chosen_first(home: Household) -> None:
    entries = [replace(local(home, "z", 0), rank=None), local(home, "b", 2), local(home, "a", 1)]
    rows = models_of({entry.id: entry for entry in entries}).listed()
    assert [(row.entry.id, row.here) for row in rows] == [("a", True), ("b", True), ("demo", False), ("z", True)]
    assert rows[0].size == (home.folder / "tiny-Q8_0.gguf").stat().st_size


def test_sizes_are_the_catalogue_s_or_those_of_files_that_are_here(home: Household) -> None:
    known = Entry("k", "k", HubFile("a/b", "c.gguf", size=5), draft=HubFile("a/b", "d.gguf", size=7))
    assert size_of(known) == 12
    assert size_of(replace(known, draft=CutFromTarget((1,)))) == 5
    assert size_of(replace(known, draft=HubFile("a/b", "d.gguf"))) is None
    assert size_of(Entry("p", "p", PackageFile("x", "y", 9, "0" * 64))) == 9
    assert size_of(Entry("n", "n", NOWHERE)) is None


def test_complete_means_the_target_and_its_draft(home: Household) -> None:
    target, absent = LocalFile(home.folder / "tiny-Q8_0.gguf"), HubFile("user/draft", "draft-Q8_0.gguf")
    assert is_complete(Entry("a", "a", target))
    assert is_complete(Entry("a", "a", target, draft=CutFromTarget((1,))))
    assert not is_complete(Entry("a", "a", target, draft=absent))
    assert not is_complete(Entry("a", "a", NOWHERE))
    assert missing(Entry("a", "a", target, draft=absent)) == (absent,)
    assert missing(Entry("a", "a", NOWHERE)) == ()


def test_what_is_asked_for_becomes_a_file_with_the_repository_s_licence(home: Household) -> None:
    query = HubQuery("user/tiny", None, "Q8_0")
    entry = settled(Entry("q", "q", query, draft=HubQuery("user/draft")), client())
    assert isinstance(entry.target, HubFile)
    assert (entry.target.file, entry.target.revision, entry.license) == ("tiny-Q8_0.gguf", None, "apache-2.0")
    assert entry.target.size == (home.folder / "tiny-Q8_0.gguf").stat().st_size
    assert [file.file for file in files_to_fetch(entry, client())] == ["tiny-Q8_0.gguf", "draft-Q8_0.gguf"]
    assert settled(Entry("q", "q", query, license="MIT"), client()).license == "MIT"
    with pytest.raises(HubError, match="no repository user/nothing"):
        settled(Entry("q", "q", HubQuery("user/nothing")), client())


def test_a_model_of_the_hub_is_judged_from_its_header_draft_included(home: Household, models: Models) -> None:
    entry = Entry("pair", "pair", HubQuery("user/tiny"), draft=HubFile("user/draft", "draft-Q8_0.gguf"))
    assert models.verdict(entry) is None
    assert home.hub.asked() == []
    verdict = models.verdict_from_hub(entry, client())
    assert verdict is not None
    assert verdict.fits
    assert verdict.demand.draft is not None
    longer = models.verdict_from_hub(entry, client(), EngineSettings(Path(), context=4096, gpu_layers=1))
    assert longer is not None
    assert (longer.plan.request.context, longer.plan.request.gpu_layers) == (4096, 1)
    alone = models.verdict_from_hub(replace(entry, draft=None), client())
    assert alone is not None
    assert alone.demand.total < verdict.demand.total
    assert not list(home.cache.glob("models--*/snapshots/*/*"))


def test_a_target_that_is_here_with_a_draft_that_is_not_is_judged_as_a_pair(home: Household, models: Models) -> None:
    entry = replace(local(home, "one", 1), draft=HubFile("user/draft", "draft-Q8_0.gguf"))
    verdict = models.verdict_from_hub(entry, client())
    assert verdict is not None
    assert verdict.demand.draft is not None


def test_deleting_names_what_goes_and_what_stays(home: Household) -> None:
    for name in ("pair", "other"):
        assert run("models", "pull", name, "-y").code == 0
    models = Models()
    removal = removal_of(models.catalogue.find("pair"), models)
    assert removal.names == ("tiny-Q4_K_M.gguf",)
    assert removal.kept == {"draft-Q8_0.gguf": ("other",)}
    assert removal.size == (home.folder / "tiny-Q4_K_M.gguf").stat().st_size
    assert removal.carry_out() == removal_size(home)
    with pytest.raises(ModelUnavailable, match="Nothing of A pair is on this machine"):
        removal_of(models.catalogue.find("pair"), models)


def removal_size(home: Household) -> int:
    return (home.folder / "tiny-Q4_K_M.gguf").stat().st_size


def test_a_model_whose_target_is_gone_still_gives_its_draft_back(home: Household) -> None:
    assert run("models", "pull", "pair", "-y").code == 0
    assert run("models", "rm", "hf:user/tiny:Q4_K_M", "-y").code == 0
    models = Models()
    removal = removal_of(models.catalogue.find("pair"), models)
    assert removal.names == ("draft-Q8_0.gguf",)
    assert removal.carry_out() > 0
    assert list(home.cache.glob("models--*/snapshots/*/*.gguf")) == []
