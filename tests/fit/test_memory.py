"""What is free, what the driver takes, and what is left over for what nobody counts."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from specchat.engine.settings import EngineSettings
from specchat.fit import check, gate, memory
from specchat.fit.cgroups import GroupMemory, free_within_groups
from specchat.fit.check import Check, memory_of
from specchat.fit.exact import Devices, ExactMeasure, FitUnavailable
from specchat.fit.memory import (
    Card,
    SizeError,
    host,
    nvidia_cards,
    of_gpus,
    parse_size,
    pci_address,
    planned,
    with_freed,
)
from specchat.fit.pairs import Pair
from specchat.llama.gpus import Gpu

MIB = 1 << 20
GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GiB", 24 * GIB),
        ("24GB", 24 * GIB),
        ("24 g", 24 * GIB),
        ("24", 24 * GIB),
        ("8192MiB", 8 * GIB),
        ("11.5GiB", 23 * GIB // 2),
    ],
)
def test_a_card_is_named_by_its_size_as_on_the_box(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-4GiB", "24 GiB more", "0", "nan", "12KiB", "9" * 30])
def test_a_text_that_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SizeError, match="24GiB"):
        parse_size(text)


def test_a_planned_card_keeps_room_for_its_driver_and_a_margin() -> None:
    card = planned(24 * GIB)
    assert card.planned
    assert card.on_device
    assert card.usable == (24 * 1024 - 400 - 512) * MIB


def test_a_card_smaller_than_its_overhead_has_nothing_usable() -> None:
    assert planned(256 * MIB).usable == 0


ADA = Gpu("NVIDIA GeForce RTX 4090", free=23_600 * MIB, total=24_077 * MIB, pci_id="0000:01:00.0")


def card(*, free: int = 24_000 * MIB, display: bool = False) -> dict[str, Card]:
    return {"0000:01:00.0": Card("RTX 4090", 24_564 * MIB, free, display)}


def test_nvml_is_believed_over_llama_cpp_and_the_driver_s_share_comes_off() -> None:
    found = of_gpus([ADA], card(), wsl=False)
    assert (found.free, found.overhead, found.margin) == (24_000 * MIB, 400 * MIB, 512 * MIB)
    assert found.usable == (24_000 - 912) * MIB


def test_a_screen_on_the_card_doubles_the_margin() -> None:
    assert of_gpus([ADA], card(display=True), wsl=False).margin == 1024 * MIB


def test_under_wsl_the_lesser_of_both_views_counts() -> None:
    """llama.cpp's view has its own context already taken off."""
    assert of_gpus([ADA], card(free=20_000 * MIB), wsl=True).free == 20_000 * MIB
    found = of_gpus([ADA], card(free=24_564 * MIB), wsl=True)
    assert (found.free, found.margin) == (24_000 * MIB, 1024 * MIB)


def test_without_nvml_llama_cpp_s_view_counts_which_holds_its_context_already() -> None:
    found = of_gpus([ADA], {}, wsl=False)
    assert (found.free, found.overhead, found.margin) == (ADA.free, 0, 512 * MIB)


def test_a_process_that_has_its_context_already_pays_for_it_only_once() -> None:
    found = of_gpus([ADA], card(free=23_500 * MIB), wsl=False, has_context=True)
    assert (found.free, found.overhead, found.usable) == (23_500 * MIB, 0, (23_500 - 512) * MIB)
    assert of_gpus([ADA], card(free=24_564 * MIB), wsl=True, has_context=True).free == ADA.free


def test_before_a_load_the_context_is_made_and_then_the_card_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a context takes on this card, it is counted once, at the first load and at every later one."""
    free = 24_000 * MIB

    def found() -> list[Gpu]:
        nonlocal free
        free = 23_400 * MIB
        return [ADA]

    monkeypatch.setattr(gate, "library", lambda: SimpleNamespace(offloads=True))
    monkeypatch.setattr(gate, "gpus", found)
    monkeypatch.setattr(gate, "nvidia_cards", lambda: card(free=free))
    monkeypatch.setattr(memory, "under_wsl", lambda: False)
    for _ in range(2):
        assert gate.memory_here().usable == (23_400 - 512) * MIB


def test_what_switching_models_frees_is_free_for_the_next() -> None:
    before = of_gpus([ADA], card(free=4_000 * MIB), wsl=False)
    after = with_freed(before, 19_000 * MIB)
    assert after.usable == (23_000 - 512) * MIB, "the process that loads has its context already"
    assert with_freed(before, 0) == before
    assert with_freed(before, 99 * GIB).free == before.total


def test_a_card_that_llama_cpp_does_not_see_is_not_counted() -> None:
    cards = {**card(), "0000:02:00.0": Card("RTX 3060", 12 * GIB, 12 * GIB, False)}
    assert of_gpus([ADA], cards, wsl=False).total == 24_564 * MIB


def test_layers_spread_over_two_cards_so_their_memory_adds_up() -> None:
    other = Gpu("RTX 4090", free=23_000 * MIB, total=24_077 * MIB, pci_id="0000:02:00.0")
    cards = {**card(), "0000:02:00.0": Card("RTX 4090", 24_564 * MIB, 23_400 * MIB, False)}
    found = of_gpus([ADA, other], cards, wsl=False)
    assert found.device == "2 × RTX 4090"
    assert found.usable == (24_000 + 23_400 - 2 * 912) * MIB


def test_both_spellings_of_a_pci_address_are_one() -> None:
    assert pci_address("00000000:0A:00.0") == pci_address("0000:0a:00.0") == "0000:0a:00.0"


class FakeNvml:
    """NVML as a driver with one card in use and one that has fallen off the bus."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.shut_down = False

    def nvmlInit(self) -> None: ...  # noqa: N802

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut_down = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        if index:
            raise self.NVMLError("GPU is lost")
        return index

    def nvmlDeviceGetMemoryInfo(self, _: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=24_564 * MIB, free=20_000 * MIB)

    def nvmlDeviceGetPciInfo(self, _: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(busId=b"00000000:01:00.0")

    def nvmlDeviceGetName(self, _: int) -> str:  # noqa: N802
        return "RTX 4090"

    def nvmlDeviceGetDisplayActive(self, _: int) -> int:  # noqa: N802
        return 1


def test_cards_are_read_from_nvml_and_a_lost_one_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvidia_cards() == {"0000:01:00.0": Card("RTX 4090", 24_564 * MIB, 20_000 * MIB, display=True)}
    assert nvml.shut_down


def test_a_machine_without_the_nvidia_driver_has_no_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = FakeNvml()
    monkeypatch.setattr(nvml, "nvmlInit", _no_driver)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert nvidia_cards() == {}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvidia_cards() == {}


def _no_driver() -> None:
    raise FakeNvml.NVMLError("Driver Not Loaded")


def test_without_limits_the_machine_s_available_memory_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_within_groups", lambda: None)
    found = host()
    assert found.total == psutil.virtual_memory().total
    assert 0 < found.free <= found.total
    assert not found.on_device
    assert found.usable == found.free - 512 * MIB


def test_a_container_s_limit_is_the_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_within_groups", lambda: GroupMemory(total=1 * GIB, free=700 * MIB))
    found = host()
    assert (found.total, found.free, found.usable) == (1 * GIB, 700 * MIB, 188 * MIB)


def group(directory: Path, limit: str, usage: int, *, file_pages: int = 0, version: int = 2) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    prefix = "" if version == 2 else "total_"
    (directory / names[0]).write_text(f"{limit}\n")
    (directory / names[1]).write_text(f"{usage}\n")
    (directory / "memory.stat").write_text(f"anon 17\n{prefix}inactive_file {file_pages}\n")


def membership(directory: Path, text: str) -> Path:
    path = directory / "cgroup"
    path.write_text(text)
    return path


def test_pages_of_files_are_no_use_of_a_group_s_memory(tmp_path: Path) -> None:
    """A model that is mapped counts as used by the group, but is dropped as soon as others need the room."""
    group(tmp_path / "app", str(4 * GIB), 3 * GIB, file_pages=2 * GIB)
    found = free_within_groups(tmp_path, membership(tmp_path, "0::/app\n"))
    assert found == GroupMemory(total=4 * GIB, free=3 * GIB)


def test_a_limit_of_an_outer_group_holds_too(tmp_path: Path) -> None:
    group(tmp_path / "user.slice", str(2 * GIB), GIB)
    group(tmp_path / "user.slice" / "session", "max", GIB)
    found = free_within_groups(tmp_path, membership(tmp_path, "0::/user.slice/session\n"))
    assert found == GroupMemory(total=2 * GIB, free=GIB)


def test_inside_a_container_the_top_group_is_the_own_one(tmp_path: Path) -> None:
    """There `/proc/self/cgroup` may name a path that only the host has."""
    group(tmp_path, str(GIB), 0)
    found = free_within_groups(tmp_path, membership(tmp_path, "0::/docker/0123abcd\n"))
    assert found == GroupMemory(total=GIB, free=GIB)


def test_groups_of_version_1_are_read_too(tmp_path: Path) -> None:
    group(tmp_path / "memory" / "box", str(8 * GIB), 5 * GIB, file_pages=GIB, version=1)
    found = free_within_groups(tmp_path, membership(tmp_path, "5:cpu:/box\n4:memory:/box\n0::/\n"))
    assert found == GroupMemory(total=8 * GIB, free=4 * GIB)


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    group(tmp_path / "a", "max", GIB)
    group(tmp_path / "memory", str((1 << 63) - 4096), GIB, version=1)
    assert free_within_groups(tmp_path, membership(tmp_path, "4:memory:/\n0::/a\n")) is None
    assert free_within_groups(tmp_path / "none", tmp_path / "none") is None


def test_where_llama_cpp_does_not_tell_its_gpus_the_nvidia_cards_count() -> None:
    found = memory_of((), card(free=23_500 * MIB), unknown="It can't be told.", has_context=True)
    assert (found.device, found.on_device, found.usable) == ("RTX 4090", True, (23_500 - 512) * MIB)
    with pytest.raises(FitUnavailable, match=r"It can't be told\."):
        memory_of((), {}, unknown="It can't be told.")
    assert not memory_of((), card(), unknown=None).on_device, "a card that llama.cpp does not use is none of its memory"


def test_nothing_is_refused_where_nobody_can_tell_what_is_free(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    monkeypatch.setattr(gate, "library", lambda: SimpleNamespace(offloads=True))
    monkeypatch.setattr(gate, "gpus", list)
    monkeypatch.setattr(gate, "gpus_unknown", lambda: "It can't be told.")
    monkeypatch.setattr(gate, "nvidia_cards", dict)
    gate.require_fit(Pair("tiny", tiny), EngineSettings(tiny))


def test_whether_a_model_fits_an_unknown_gpu_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> None:
    monkeypatch.setattr(ExactMeasure, "devices", lambda _: Devices(offloads=True, gpus=()))
    monkeypatch.setattr(check, "nvidia_cards", dict)
    monkeypatch.setattr(check, "gpus_unknown", lambda: "It can't be told.")
    with Check() as judge, pytest.raises(FitUnavailable, match=r"Whether tiny fits can't be told\. It can't be told\."):
        judge.judge(Pair("tiny", tiny), EngineSettings(tiny))
