"""Downloads go on where they stopped, whatever stopped them, and only what was promised reaches the cache."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from specchat.catalogue import cache, download, transfer
from specchat.catalogue.cache import CacheNotWritable, DiskFull, cached_path, partial_path, wrong_path
from specchat.catalogue.download import WrongContent, fetch, plan
from specchat.catalogue.hub import Hub
from specchat.catalogue.hub_errors import Cancelled, HubError, Problem
from specchat.catalogue.progress import Meter, Phase, Progress
from specchat.catalogue.ranges import MOST_BYTES, RemoteFile
from specchat.catalogue.sources import HubFile
from tests.catalogue.loopback_hub import MAIN_COMMIT, TOKEN, Content, Fault, LoopbackHub

MakeHub = Callable[..., Hub]
SOURCE = HubFile("user/model", "model.gguf")
SIZE = 3 << 20
DATA = random.Random(7).randbytes(SIZE)


@pytest.fixture
def model(world: LoopbackHub) -> LoopbackHub:
    world.add("user/model", model__gguf=DATA)
    return world


def pull(hub: Hub, *sources: HubFile) -> Path:
    fetch(plan(sources or (SOURCE,), hub), hub)
    path = cached_path((sources or (SOURCE,))[0])
    assert path is not None
    return path


def ranges(world: LoopbackHub) -> list[str | None]:
    return [request.range for request in world.asked("blob")]


def client(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.catalogue.fetch_client", *command], stdout=subprocess.PIPE, text=True
    )


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    # Not the stream itself: an abandoned generator would close it, and the process then fails to print.
    while line := process.stdout.readline():
        yield line


def held_bytes() -> int:
    return sum(path.stat().st_size for path in cache.cache_root().rglob("*.incomplete"))


# What is promised


def test_a_pulled_file_is_found_by_the_hubs_own_library_without_a_request(model: LoopbackHub, hub: MakeHub) -> None:
    path = pull(hub())
    assert path.read_bytes() == DATA
    before = len(model.requests)
    script = "import huggingface_hub as h; print(h.hf_hub_download('user/model', 'model.gguf', local_files_only=True))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert found == str(path)
    assert len(model.requests) == before
    assert held_bytes() == 0


def test_a_download_killed_at_60_percent_moves_at_most_45_percent_again(model: LoopbackHub) -> None:
    size = 12 << 20
    data = random.Random(1).randbytes(size)
    model.add("user/model", model__gguf=data)
    model.bytes_per_s = 12 << 20
    process = client("user/model", "model.gguf")
    for line in lines(process):
        if line.startswith("held") and int(line.split()[1]) >= 0.6 * size:
            process.kill()
            break
    assert process.wait() == -signal.SIGKILL
    sent = model.sent
    model.bytes_per_s = None
    second = client("user/model", "model.gguf")
    *_, last = lines(second)
    assert second.wait() == 0
    assert model.sent - sent <= 0.45 * size
    assert Path(last.removeprefix("done ").strip()).read_bytes() == data


def test_killed_again_and_again_at_any_moment_it_still_arrives_whole(model: LoopbackHub) -> None:
    model.bytes_per_s = 4 * SIZE
    chance = random.Random(3)
    for _ in range(4):
        process = client("user/model", "model.gguf")
        if chance.random() < 0.3:
            time.sleep(0.2)
        else:
            mark = chance.randrange(SIZE)
            next((line for line in lines(process) if line.startswith("held") and int(line.split()[1]) > mark), None)
        process.kill()
        process.wait()
        whole = cached_path(SOURCE)
        assert whole is None or whole.read_bytes() == DATA
    process = client("user/model", "model.gguf")
    list(lines(process))
    assert process.wait() == 0
    path = cached_path(SOURCE)
    assert path is not None
    assert path.read_bytes() == DATA


def test_two_processes_fetch_a_file_once_and_the_second_says_that_it_waits(model: LoopbackHub) -> None:
    model.bytes_per_s = 256 << 10
    first = client("user/model", "model.gguf")
    assert next(lines(first)).startswith("held")
    second = client("user/model", "model.gguf")
    assert "Another process is downloading model.gguf" in next(lines(second))
    model.bytes_per_s = None
    for process in (first, second):
        *_, last = lines(process)
        assert last.startswith("done")
        assert process.wait() == 0
    assert model.sent == SIZE


def test_the_token_goes_to_the_hub_and_never_to_the_storage_host(
    model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.repositories["user/model"].gated = True
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    model.blob_faults.append(Fault(cut_after=1000))
    pull(hub())
    assert {request.headers.get("authorization") for request in model.asked("hub")} == {f"Bearer {TOKEN}"}
    assert len(model.asked("blob")) == 2
    assert {request.headers.get("authorization") for request in model.asked("blob")} == {None}


def test_a_split_model_arrives_part_by_part_from_one_commit(model: LoopbackHub, hub: MakeHub) -> None:
    names = [f"big-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    model.add("user/split").files.update({name: Content(name.encode() * 99) for name in names})
    first, *rest = [HubFile("user/split", name) for name in names]
    source = HubFile(first.repo, first.file, parts=tuple(rest))
    asking = hub()
    paths = fetch(plan([source], asking), asking)
    assert [path.name for path in paths] == names
    assert len({path.parent for path in paths}) == 1
    assert cached_path(source) == paths[0]
    paths[2].unlink()
    assert cached_path(source) is None, "a model without its last part is not there"
    assert fetch(plan([source], asking), asking) == (paths[2],)
    assert len(model.asked("blob")) == 3, "the content was there already; only its name was missing"


def test_a_pinned_cached_model_makes_no_request_even_with_the_hub_down(model: LoopbackHub, hub: MakeHub) -> None:
    content = model.repositories["user/model"].files["model.gguf"]
    by_commit = HubFile("user/model", "model.gguf", MAIN_COMMIT)
    by_hash = HubFile("user/model", "model.gguf", size=SIZE, sha256=content.sha256)
    path = pull(hub())
    before = len(model.requests)
    model.stop()
    for source in (by_commit, by_hash):
        assert cached_path(source) == path
        wanted = plan([source], hub())
        assert (wanted.files, wanted.to_fetch) == ((), 0)
    assert plan([SOURCE], hub(offline=True)).files == ()
    assert len(model.requests) == before


# What goes wrong on the way


def test_a_cut_connection_goes_on_in_the_same_run(model: LoopbackHub, hub: MakeHub, said: list[str]) -> None:
    cut = SIZE // 3
    model.blob_faults.append(Fault(cut_after=cut))
    assert pull(hub()).read_bytes() == DATA
    assert ranges(model) == ["bytes=0-", f"bytes={cut}-"]
    assert model.sent == SIZE
    assert "cut" in said[0]


def test_a_connection_that_is_always_cut_is_told_and_what_arrived_is_kept(model: LoopbackHub, hub: MakeHub) -> None:
    model.blob_faults.extend([Fault(cut_after=1000)] * 3)
    with pytest.raises(HubError, match="kept") as caught:
        pull(hub())
    assert caught.value.problem is Problem.CUT
    assert held_bytes() == 3000
    pull(hub())
    assert model.sent == SIZE


def test_an_address_that_expires_on_the_way_is_renewed(model: LoopbackHub, hub: MakeHub) -> None:
    model.address_bytes = SIZE // 2
    wanted = plan([SOURCE], hub())
    assert len(fetch(wanted, hub())) == 1
    statuses = [request.status for request in model.asked("blob")]
    assert 403 in statuses
    assert len({request.path for request in model.asked("blob")}) > 1
    assert model.sent < SIZE + 1000, "the bytes from before are not fetched again"


def test_an_address_older_than_the_plan_is_renewed(model: LoopbackHub, hub: MakeHub) -> None:
    wanted = plan([SOURCE], hub())
    model.expire_addresses()
    fetch(wanted, hub())
    assert model.sent - sum(request.sent for request in model.asked("blob") if request.status == 403) == SIZE


def test_a_silent_connection_is_taken_up_again(model: LoopbackHub, hub: MakeHub, said: list[str]) -> None:
    model.blob_faults.append(Fault(silent_after=SIZE // 2))
    assert pull(hub()).read_bytes() == DATA
    assert "stalled" in said[0]
    assert ranges(model)[1] == f"bytes={SIZE // 2}-"


def test_a_dripping_connection_counts_as_stalled(model: LoopbackHub, hub: MakeHub, said: list[str]) -> None:
    model.blob_faults.append(Fault(drip_s=0.02))
    assert pull(hub()).read_bytes() == DATA
    assert "next to nothing" in said[0]


def test_the_storage_host_too_may_ask_to_wait(model: LoopbackHub, hub: MakeHub, said: list[str]) -> None:
    model.blob_faults.append(Fault(status=429, headers={"Retry-After": "1"}))
    pull(hub())
    assert "Waiting 1 s" in said[0]


def test_a_server_that_ignores_ranges_costs_traffic_but_nothing_else(
    model: LoopbackHub, hub: MakeHub, said: list[str]
) -> None:
    model.blob_faults.extend([Fault(cut_after=SIZE // 2), Fault(whole=True)])
    assert pull(hub()).read_bytes() == DATA
    assert any("from its start" in sentence for sentence in said)


def test_a_corrupt_byte_is_found_set_aside_and_the_next_try_starts_from_zero(model: LoopbackHub, hub: MakeHub) -> None:
    model.blob_faults.append(Fault(corrupt_at=SIZE - 5))
    wanted = plan([SOURCE], hub())
    aside = wrong_path(wanted.files[0].remote)
    with pytest.raises(WrongContent) as caught:
        fetch(wanted, hub())
    assert str(aside) in str(caught.value)
    assert len(aside.read_bytes()) == SIZE
    assert cached_path(SOURCE) is None
    assert pull(hub()).read_bytes() == DATA
    assert ranges(model) == ["bytes=0-", "bytes=0-"]


def test_a_partial_file_damaged_on_the_disk_is_found(model: LoopbackHub, hub: MakeHub) -> None:
    wanted = plan([SOURCE], hub())
    partial = partial_path(wanted.files[0].remote)
    partial.parent.mkdir(parents=True)
    partial.write_bytes(bytes(SIZE // 2))
    with pytest.raises(WrongContent):
        fetch(wanted, hub())
    assert pull(hub()).read_bytes() == DATA


@pytest.mark.parametrize("announce", [-10, 10])
def test_a_wrong_announced_length_is_told_and_nothing_taken(model: LoopbackHub, hub: MakeHub, announce: int) -> None:
    model.blob_faults.append(Fault(announce=announce))
    with pytest.raises(HubError, match=f"announces {SIZE + announce} bytes"):
        pull(hub())
    assert held_bytes() == 0
    assert pull(hub()).read_bytes() == DATA


def test_a_body_that_goes_on_past_the_end_does_no_harm(model: LoopbackHub, hub: MakeHub) -> None:
    model.blob_faults.append(Fault(unannounced=5000, whole=True))
    assert pull(hub()).read_bytes() == DATA


def test_a_body_too_long_for_one_answer_is_asked_for_in_pieces(
    model: LoopbackHub, hub: MakeHub, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "_LONGEST_BODY", 2 << 20)
    assert pull(hub()).read_bytes() == DATA
    assert ranges(model) == [f"bytes=0-{(2 << 20) - 1}", f"bytes={2 << 20}-"]
    assert said == []


def test_a_small_file_named_by_git_is_checked_too(model: LoopbackHub, hub: MakeHub) -> None:
    repository = model.add("user/small", tiny__gguf=b"GGUF and little more")
    repository.small = frozenset({"tiny.gguf"})
    source = HubFile("user/small", "tiny.gguf")
    wanted = plan([source], hub())
    repository.files["tiny.gguf"] = Content(b"GGUF and little lesz")
    with pytest.raises(WrongContent):
        fetch(wanted, hub())
    assert pull(hub(), source).read_bytes() == b"GGUF and little lesz"


def test_the_beginning_of_an_older_content_is_never_continued_with_a_newer_one(
    model: LoopbackHub, hub: MakeHub
) -> None:
    model.blob_faults.extend([Fault(cut_after=1000)] * 3)
    with pytest.raises(HubError):
        pull(hub())
    newer = DATA[::-1]
    model.add("user/model", model__gguf=newer).commits["main"] = "b" * 40
    assert pull(hub()).read_bytes() == newer
    assert ranges(model)[-1] == "bytes=0-"


def test_a_newer_content_leaves_the_older_one_where_it_was(model: LoopbackHub, hub: MakeHub) -> None:
    older = pull(hub())
    model.add("user/model", model__gguf=DATA[::-1]).commits["main"] = "b" * 40
    model.blob_faults.append(Fault(corrupt_at=0))
    with pytest.raises(WrongContent):
        pull(hub())
    assert cached_path(SOURCE) == older
    assert older.read_bytes() == DATA
    assert pull(hub()).read_bytes() == DATA[::-1]
    assert older.read_bytes() == DATA


def test_a_cancelled_download_stops_at_once_and_is_taken_up_later(model: LoopbackHub, hub: MakeHub) -> None:
    model.blob_faults.append(Fault(silent_after=1 << 20))
    patient = Hub(say=lambda _: None, cancelled=lambda: time.monotonic() > start + 0.3)
    wanted = plan([SOURCE], hub())
    start = time.monotonic()
    with pytest.raises(Cancelled):
        fetch(wanted, patient)
    assert time.monotonic() - start < 2.5
    pull(hub())
    assert ranges(model)[-1] == f"bytes={1 << 20}-"


def test_jumps_of_the_clock_do_not_matter(model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    monkeypatch.setattr(time, "time", lambda: chance.uniform(0, 4e9))
    model.blob_faults.append(Fault(cut_after=SIZE // 2))
    seen: list[Progress] = []
    asking = hub()
    fetch(plan([SOURCE], asking), asking, seen.append)
    assert cached_path(SOURCE) is not None
    assert all(later.done >= earlier.done for earlier, later in pairwise(seen))


def test_what_breaks_the_progress_display_is_not_blamed_on_the_disk(model: LoopbackHub, hub: MakeHub) -> None:
    def broken(_: Progress) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    asking = hub()
    with pytest.raises(BrokenPipeError):
        fetch(plan([SOURCE], asking), asking, broken)
    pull(hub())


# The disk


def test_a_disk_without_room_is_told_before_the_first_byte(
    model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "free_bytes", lambda _: SIZE)
    wanted = plan([SOURCE], hub())
    assert not wanted.fits
    with pytest.raises(DiskFull, match="HF_HOME"):
        fetch(wanted, hub())
    assert model.asked("blob") == []


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 2 MiB with the cache on it."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    monkeypatch.setenv("HF_HOME", str(place / "hf"))
    yield place
    subprocess.run(["umount", place], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


def test_a_disk_that_fills_on_the_way_keeps_what_has_arrived(
    model: LoopbackHub, hub: MakeHub, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "free_bytes", lambda _: 1 << 40)
    with pytest.raises(DiskFull, match="kept"):
        pull(hub())
    held = held_bytes()
    assert held > 1 << 20
    remount(small_disk, "size=20m")
    assert pull(hub()).read_bytes() == DATA
    assert ranges(model)[-1] == f"bytes={held}-"


def test_a_full_disk_is_told_on_any_machine(model: LoopbackHub, hub: MakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        with pytest.raises(DiskFull, match="The disk is full"):
            pull(hub())
    pull(hub())
    assert model.sent == SIZE


def test_a_read_only_cache_serves_what_it_has_and_says_why_it_takes_nothing(
    model: LoopbackHub, hub: MakeHub, small_disk: Path
) -> None:
    model.add("user/small", tiny__gguf=b"GGUF" * 50)
    small = HubFile("user/small", "tiny.gguf")
    remount(small_disk, "size=80m")
    path = pull(hub(), small)
    remount(small_disk, "ro")
    try:
        assert cached_path(small) == path
        assert plan([small], hub()).files == ()
        with pytest.raises(CacheNotWritable, match="HF_HOME"):
            fetch(plan([SOURCE], hub()), hub())
    finally:
        remount(small_disk, "rw")


# Progress and headers


def test_progress_counts_both_files_and_what_earlier_runs_left(model: LoopbackHub, hub: MakeHub) -> None:
    model.repositories["user/model"].files["draft.gguf"] = Content(DATA[:1000])
    model.blob_faults.extend([Fault(cut_after=SIZE // 2)] + [Fault(cut_after=0)] * 3)
    with pytest.raises(HubError):
        pull(hub())
    seen: list[Progress] = []
    asking = hub()
    wanted = plan([SOURCE, HubFile("user/model", "draft.gguf")], asking)
    assert (wanted.size, wanted.to_fetch) == (SIZE + 1000, SIZE // 2 + 1000)
    fetch(wanted, asking, seen.append)
    assert [now.file for now in seen if now.phase is Phase.DONE] == ["model.gguf", "draft.gguf"]
    assert {now.size for now in seen} == {SIZE + 1000}
    assert seen[0].done >= SIZE // 2
    assert (seen[-1].done, seen[-1].moved) == (SIZE + 1000, SIZE // 2 + 1000)


def test_speed_and_time_left_are_of_the_last_ten_seconds() -> None:
    now = 0.0
    seen: list[Progress] = []
    meter = Meter([("a", 10_000, 4_000), ("b", 10_000, 0)], seen.append, lambda: now)
    for second in range(1, 41):
        now = float(second)
        moved = second * 10 if second <= 20 else 200 + (second - 20) * 100
        meter.count(4_000 + moved, moved, 0)
    assert seen[-1].bytes_per_s == pytest.approx(100)
    assert seen[-1].left_s == pytest.approx((20_000 - 6_200) / 100)


def test_a_header_is_read_without_the_rest_of_the_file(model: LoopbackHub, hub: MakeHub) -> None:
    size = 40 << 20
    model.add("user/big", big__gguf=DATA + bytes(size - SIZE))
    model.blob_faults.append(Fault(cut_after=100_000))
    remote = RemoteFile(HubFile("user/big", "big.gguf"), hub())
    assert remote.read(0, 24) == DATA[:24]
    assert remote.read(1 << 20, 5000) == DATA[1 << 20 : (1 << 20) + 5000]
    assert remote.read(10, 100) == DATA[10:110]
    assert remote.size == size
    assert model.sent < 3 << 20
    model.expire_addresses()
    assert remote.read(20 << 20, 4) == bytes(4)
    with pytest.raises(HubError, match="24 MiB"):
        remote.read(30 << 20, 4)
    assert model.sent <= MOST_BYTES
    assert held_bytes() == 0
