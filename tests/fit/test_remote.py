"""A header fetched by ranges measures as the whole file does, moves little, and is fetched once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specchat.catalogue.hub import Hub, Patience
from specchat.catalogue.hub_errors import HubError, Problem
from specchat.catalogue.sources import HubFile
from specchat.engine.settings import EngineSettings
from specchat.fit.check import Check, request_for
from specchat.fit.exact import measure
from specchat.fit.pairs import Pair
from specchat.fit.remote import header_file
from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import read_header
from tests.catalogue.loopback_hub import Fault, LoopbackHub, Repository
from tests.fit.split_model import write_split_model
from tests.tiny_model import write_model


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with LoopbackHub() as world:
        monkeypatch.setenv("HF_ENDPOINT", world.endpoint)
        yield world


def client(tries: int = 3) -> Hub:
    return Hub(patience=Patience(5.0, stall_s=2.0, tries=tries, first_pause_s=0.01))


@pytest.fixture
def moved(world: LoopbackHub) -> Callable[[], int]:
    """Bytes of bodies since it was asked last."""
    seen = 0

    def since() -> int:
        nonlocal seen
        before, seen = seen, world.sent
        return seen - before

    return since


def long_header(path: Path) -> Path:
    """A model whose header takes 5 MB, as that of a quarter of a million words does."""
    return write_model(path, template="x" * (5 << 20))


def test_what_is_fetched_measures_as_the_whole_file_and_takes_no_room(world: LoopbackHub, tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf")
    with path.open("r+b") as file:
        file.truncate(64 << 20)
    world.add("user/model", m__gguf=path)
    header = header_file(HubFile("user/model", "m.gguf"), client())
    assert header.stat().st_size == path.stat().st_size
    assert header.stat().st_blocks * 512 < 1 << 20
    assert world.sent <= 3 << 20
    settings = EngineSettings(path)
    request = request_for(settings, n_ctx_train=512, on_device=False)
    assert measure(header, header, request) == measure(path, path, request)


def test_a_header_of_many_megabytes_costs_little_more_than_itself(
    world: LoopbackHub, tmp_path: Path, moved: Callable[[], int]
) -> None:
    path = long_header(tmp_path / "m.gguf")
    start = read_header(path).data_start
    world.add("user/model", m__gguf=path)
    header = header_file(HubFile("user/model", "m.gguf"), client())
    assert 4 << 20 < start <= moved() <= min(2 * start + (4 << 20), 24 << 20)
    begun = time.perf_counter()
    with Check() as check:
        assert check.judge(Pair("m", header), EngineSettings(header)).demand.exact
    # 3 s are promised; other tests may run beside this one.
    assert time.perf_counter() - begun < 9


def test_what_is_kept_is_not_fetched_again(world: LoopbackHub, tmp_path: Path, moved: Callable[[], int]) -> None:
    repository = world.add("user/model", m__gguf=write_model(tmp_path / "m.gguf"))
    content = repository.files["m.gguf"]
    pinned = HubFile("user/model", "m.gguf", size=content.size, sha256=content.sha256)
    first = header_file(HubFile("user/model", "m.gguf"), client())
    assert moved() > 0
    # Without a pin the hub is asked what the file is now, and only that.
    assert header_file(HubFile("user/model", "m.gguf"), client()) == first
    assert moved() == 0
    world.stop()
    world.requests.clear()
    assert header_file(pinned, client()) == first
    assert world.asked() == []


def test_another_content_under_the_same_name_is_another_header(world: LoopbackHub, tmp_path: Path) -> None:
    source = HubFile("user/model", "m.gguf")
    world.add("user/model", m__gguf=write_model(tmp_path / "one.gguf"))
    one = header_file(source, client())
    world.add("user/model", m__gguf=write_model(tmp_path / "two.gguf", layers=4))
    two = header_file(source, client())
    assert one != two
    assert two.stat().st_size > one.stat().st_size


def test_the_parts_of_a_split_model_lie_beside_each_other(world: LoopbackHub, tmp_path: Path) -> None:
    repository = Repository({})
    parts = write_split_model(tmp_path / "big.gguf")
    for part in parts:
        repository.files[f"Q4/{part.name}"] = world.add("scratch/one", x__gguf=part).files["x.gguf"]
    world.repositories["user/split"] = repository
    first, *rest = [HubFile("user/split", name) for name in repository.files]
    header = header_file(HubFile(first.repo, first.file, parts=tuple(rest)), client())
    assert header.name == parts[0].name
    request = request_for(EngineSettings(header), n_ctx_train=512, on_device=False)
    whole = write_model(tmp_path / "whole.gguf")
    assert measure(header, None, request).target == measure(whole, None, request).target


def test_cut_connections_and_expired_addresses_cost_a_repetition(world: LoopbackHub, tmp_path: Path) -> None:
    path = long_header(tmp_path / "m.gguf")
    world.add("user/model", m__gguf=path)
    world.blob_faults.extend([Fault(cut_after=100_000), Fault(status=403), Fault(status=503)])
    header = header_file(HubFile("user/model", "m.gguf"), client(tries=5))
    length = read_header(path).data_start
    assert header.read_bytes()[:1000] == path.read_bytes()[:1000]
    assert header.stat().st_size == path.stat().st_size
    assert length <= world.sent <= 24 << 20


@pytest.mark.parametrize("data", [b"no model at all" * 1000, b"GGUF" + b"\xff" * 50_000])
def test_what_is_no_model_is_a_sentence_and_leaves_nothing(world: LoopbackHub, tmp_path: Path, data: bytes) -> None:
    world.add("user/model", m__gguf=data)
    with pytest.raises(ModelUnusable, match=r"m\.gguf is (not a GGUF model|damaged)"):
        header_file(HubFile("user/model", "m.gguf"), client())
    assert list(tmp_path.glob("cache/specchat/headers/*.gguf")) == []


def test_a_header_without_end_stops_at_24_mib(world: LoopbackHub, tmp_path: Path) -> None:
    # One text of metadata that is 60 MiB long.
    length = 60 << 20
    endless = b"GGUF" + (3).to_bytes(4, "little") + (1).to_bytes(8, "little") + (1).to_bytes(8, "little")
    endless += (1).to_bytes(8, "little") + b"a" + (8).to_bytes(4, "little") + length.to_bytes(8, "little")
    path = tmp_path / "m.gguf"
    path.write_bytes(endless)
    with path.open("r+b") as file:
        file.truncate(64 << 20)
    world.add("user/model", m__gguf=path)
    with pytest.raises(HubError, match="more than 24 MiB"):
        header_file(HubFile("user/model", "m.gguf"), client())
    assert world.sent <= 24 << 20


def test_offline_only_what_is_kept_will_do(world: LoopbackHub, tmp_path: Path) -> None:
    content = world.add("user/model", m__gguf=write_model(tmp_path / "m.gguf")).files["m.gguf"]
    source = HubFile("user/model", "m.gguf", size=content.size, sha256=content.sha256)
    with pytest.raises(HubError) as refused:
        header_file(source, Hub(offline=True))
    assert refused.value.problem is Problem.OFFLINE
    kept = header_file(source, client())
    assert header_file(source, Hub(offline=True)) == kept
