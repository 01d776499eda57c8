"""The cache is the one that all hub programs share: what they put there is found, what is put there they find."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from specchat.catalogue.cache import (
    cache_root,
    cached_listing,
    cached_path,
    lock_path,
    partial_path,
    repository,
)
from specchat.catalogue.download import fetch, plan
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.hub import Hub
from specchat.catalogue.hub_errors import HubError
from specchat.catalogue.inventory import cached_files, discard, remove
from specchat.catalogue.sources import HubFile, ListedFile
from tests.catalogue.loopback_hub import MAIN_COMMIT, Content, Fault, LoopbackHub

MakeHub = Callable[..., Hub]
SOURCE = HubFile("user/model", "model.gguf")
DATA = b"GGUF" + bytes(200_000)
NEWER = "b" * 40


@pytest.fixture
def model(world: LoopbackHub) -> LoopbackHub:
    world.add("user/model", model__gguf=DATA)
    return world


def pull(hub: Hub, source: HubFile = SOURCE) -> Path:
    fetch(plan([source], hub), hub)
    path = cached_path(source)
    assert path is not None
    return path


def run(script: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "XDG_", "HUGG"))}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"XDG_CACHE_HOME": "/somewhere/cache"},
        {"HF_HOME": "~/models", "XDG_CACHE_HOME": "/somewhere/cache"},
        {"HF_HUB_CACHE": "/elsewhere/$USER/hub", "USER": "me", "HF_HOME": "/not/this"},
        {"HUGGINGFACE_HUB_CACHE": "/old/hub"},
    ],
)
def test_the_folder_is_the_one_that_the_hubs_library_uses(variables: dict[str, str]) -> None:
    ours, theirs = run(
        "from specchat.catalogue.cache import cache_root; print(cache_root());"
        "from huggingface_hub.constants import HF_HUB_CACHE; print(HF_HUB_CACHE)",
        **variables,
    ).splitlines()
    assert ours == theirs


def test_looking_a_model_up_imports_nothing_of_the_hubs_library(model: LoopbackHub, hub: MakeHub) -> None:
    path = pull(hub())
    before = len(model.requests)
    script = (
        "import sys; from specchat.catalogue.cache import cached_path; from specchat.catalogue.sources import HubFile;"
        "print(cached_path(HubFile('user/model', 'model.gguf')), 'huggingface_hub' in sys.modules)"
    )
    assert run(script, HF_HOME=os.environ["HF_HOME"]) == f"{path} False"
    assert len(model.requests) == before


def test_a_file_that_the_hubs_library_fetched_is_found(model: LoopbackHub, hub: MakeHub) -> None:
    theirs = run(
        "import huggingface_hub as h; print(h.hf_hub_download('user/model', 'model.gguf'))",
        HF_HOME=os.environ["HF_HOME"],
        HF_ENDPOINT=model.endpoint,
    )
    assert str(cached_path(SOURCE)) == theirs
    assert plan([SOURCE], hub()).files == ()


def test_without_links_the_file_itself_is_put_there_and_not_twice(
    model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_DISABLE_SYMLINKS", "1")
    path = pull(hub())
    assert not path.is_symlink()
    assert path.read_bytes() == DATA
    assert list(repository("user/model").joinpath("blobs").iterdir()) == []
    script = "import huggingface_hub as h; print(h.hf_hub_download('user/model', 'model.gguf', local_files_only=True))"
    assert run(script, HF_HOME=os.environ["HF_HOME"]) == str(path)
    # A second name for a content that links need is a copy, so that they stay good.
    monkeypatch.delenv("HF_HUB_DISABLE_SYMLINKS")
    model.repositories["user/model"].files["other.gguf"] = Content(DATA[::-1])
    linked = pull(hub(), HubFile("user/model", "other.gguf"))
    monkeypatch.setenv("HF_HUB_DISABLE_SYMLINKS", "1")
    model.repositories["user/model"].commits["main"] = NEWER
    assert pull(hub(), HubFile("user/model", "other.gguf")) != linked
    assert linked.read_bytes() == DATA[::-1]


def test_a_pinned_content_is_found_in_any_snapshot_and_another_one_never(model: LoopbackHub, hub: MakeHub) -> None:
    older = pull(hub())
    model.add("user/model", model__gguf=DATA[::-1]).commits["main"] = NEWER
    newer = pull(hub())
    hashes = [path.readlink().name for path in (older, newer)]
    assert [cached_path(HubFile("user/model", "model.gguf", sha256=content)) for content in hashes] == [older, newer]
    assert cached_path(HubFile("user/model", "model.gguf", sha256="0" * 64)) is None
    assert cached_path(HubFile("user/model", "model.gguf", MAIN_COMMIT)) == older
    assert cached_path(HubFile("user/model", "model.gguf", "d" * 40)) is None
    assert cached_path(HubFile("user/model", "model.gguf", size=len(DATA) - 1)) is None


def test_a_content_in_the_cache_is_not_fetched_again_for_a_new_commit(model: LoopbackHub, hub: MakeHub) -> None:
    pull(hub())
    model.repositories["user/model"].commits["main"] = NEWER
    assert plan([SOURCE], hub()).to_fetch == 0
    assert NEWER in str(pull(hub()))
    assert len(model.asked("blob")) == 1


def test_a_truncated_blob_is_replaced_once_a_good_one_is_there(model: LoopbackHub, hub: MakeHub) -> None:
    path = pull(hub())
    path.resolve().write_bytes(DATA[:100])
    assert plan([SOURCE], hub()).to_fetch == len(DATA)
    assert pull(hub()).read_bytes() == DATA


def test_a_listing_from_the_cache(model: LoopbackHub, hub: MakeHub) -> None:
    assert cached_listing("user/model") is None
    path = pull(hub())
    expected = ListedFile("model.gguf", len(DATA), path.readlink().name)
    assert cached_listing("user/model") == (MAIN_COMMIT, (expected,))
    assert cached_listing("user/model", "v2") is None


def test_files_and_unfinished_downloads_are_listed(model: LoopbackHub, hub: MakeHub) -> None:
    assert cached_files() == ()
    pull(hub())
    model.repositories["user/model"].files["other.gguf"] = Content(DATA[::-1])
    model.blob_faults.extend([Fault(cut_after=1000)] * 3)
    with pytest.raises(HubError):
        pull(hub(), HubFile("user/model", "other.gguf"))
    whole, unfinished = cached_files()
    assert (whole.repo, whole.file, whole.commit, whole.size) == ("user/model", "model.gguf", MAIN_COMMIT, len(DATA))
    assert (unfinished.commit, unfinished.size) == (None, 3000)
    assert discard(unfinished.path) == 3000
    assert cached_files() == (whole,)


def test_removing_frees_the_content_unless_another_name_needs_it(model: LoopbackHub, hub: MakeHub) -> None:
    twin = HubFile("user/model", "twin.gguf")
    model.repositories["user/model"].files["twin.gguf"] = Content(DATA)
    pull(hub())
    pull(hub(), twin)
    assert len(model.asked("blob")) == 1
    assert remove(SOURCE) == 0
    assert cached_path(SOURCE) is None
    path = cached_path(twin)
    assert path is not None
    assert path.read_bytes() == DATA
    assert remove(twin) == len(DATA)
    assert [path for path in cache_root().rglob("*") if path.is_file() and path.stat().st_size >= len(DATA)] == []
    with pytest.raises(ModelUnavailable, match=r"hf:user/model:twin\.gguf is not in the cache"):
        remove(twin)


def test_removing_a_pinned_model_takes_its_unfinished_download_but_not_one_that_is_running(
    model: LoopbackHub, hub: MakeHub
) -> None:
    content = model.repositories["user/model"].files["model.gguf"]
    pinned = HubFile("user/model", "model.gguf", sha256=content.sha256)
    model.blob_faults.extend([Fault(cut_after=1000)] * 3)
    wanted = plan([pinned], hub())
    with pytest.raises(HubError):
        fetch(wanted, hub())
    with FileLock(lock_path(wanted.files[0].remote)), pytest.raises(ModelUnavailable, match="another process"):
        remove(pinned)
    assert partial_path(wanted.files[0].remote).exists()
    assert remove(pinned) == 3000
    assert cached_files() == ()
