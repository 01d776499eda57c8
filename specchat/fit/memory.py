"""How much memory the device that computes has left, and how much of it is not for models."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil

from specchat.fit.cgroups import free_within_groups
from specchat.llama.gpus import Gpu

MIB: Final = 1 << 20
CUDA_CONTEXT: Final = 400 * MIB
"""What a CUDA context takes before the first tensor: 250 to 600 MiB are reported, by card and driver."""
MARGIN: Final = 512 * MIB
"""For pools and cuBLAS, which llama.cpp's own count leaves out."""
SHARED_MARGIN: Final = 1024 * MIB
"""Where a screen is drawn by the same card, or Windows shares it: their use comes and goes."""
_UNITS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)


class SizeError(ValueError):
    """A text that is no amount of memory; the message says how to write one."""


@dataclass(frozen=True, slots=True)
class Memory:
    """One device, or several that share the layers; bytes."""

    device: str
    total: int
    free: int
    overhead: int
    """Taken by the driver once the engine starts."""
    margin: int
    """Left free, since not all that is used is known beforehand."""
    on_device: bool
    """A GPU's; otherwise the machine's."""
    planned: bool = False
    """Of a card that is not here."""

    @property
    def usable(self) -> int:
        """What models, caches and buffers may take; never negative."""
        return max(0, self.free - self.overhead - self.margin)


@dataclass(frozen=True, slots=True)
class Card:
    """What NVML says about one card; bytes."""

    name: str
    total: int
    free: int
    display: bool
    """Whether a screen is drawn by it."""


def parse_size(text: str) -> int:
    """Bytes of `24GiB`, `24GB`, `24G` or `24`; GB is GiB here, as on the box of a card. Raises SizeError."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * 1024 ** _UNITS[(match[2] or "g").lower()]) if match else 0
    if not MIB <= size < 1 << 60:
        raise SizeError(f"{text!r} is no amount of memory. Write it like 24GiB or 8192MiB.")
    return size


def planned(total: int) -> Memory:
    """A card with `total` bytes that draws no screen and runs nothing else."""
    return Memory(f"planned card, {total / 1024**3:.4g} GiB", total, total, CUDA_CONTEXT, MARGIN, True, planned=True)


def host() -> Memory:
    """Memory of the machine, within the limits of its control groups; pages of files count as free."""
    memory = psutil.virtual_memory()
    grouped = free_within_groups()
    total = memory.total if grouped is None else min(memory.total, grouped.total)
    free = memory.available if grouped is None else min(memory.available, grouped.free)
    return Memory("CPU", total, free, 0, MARGIN, False)


def with_freed(memory: Memory, freed: int) -> Memory:
    """`memory` once the process that will load has closed the model that it holds, which frees so many bytes.

    That process has been with the driver already, so that nothing more is taken for that.
    """
    return replace(memory, free=min(memory.free + freed, memory.total), overhead=0) if freed else memory


def nvidia_cards() -> dict[str, Card]:
    """The NVIDIA cards of this machine by PCI address, without waking them up; empty where NVML is missing."""
    try:
        # It has no types, and only machines with such a card need it.
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return {}
    cards: dict[str, Card] = {}
    try:
        for index in range(nvml.nvmlDeviceGetCount()):
            with contextlib.suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                memory = nvml.nvmlDeviceGetMemoryInfo(handle)
                address = pci_address(_text(nvml.nvmlDeviceGetPciInfo(handle).busId))
                name = _text(nvml.nvmlDeviceGetName(handle))
                cards[address] = Card(name, int(memory.total), int(memory.free), _draws(nvml, handle))
    finally:
        nvml.nvmlShutdown()
    return cards


def _draws(nvml: Any, handle: Any) -> bool:
    try:
        return bool(nvml.nvmlDeviceGetDisplayActive(handle))
    except nvml.NVMLError:
        return False


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def pci_address(text: str) -> str:
    """`00000000:01:00.0` (NVML) and `0000:01:00.0` (ggml) as one spelling."""
    domain, _, rest = text.strip("\0 ").lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def of_gpus(
    gpus: Sequence[Gpu], cards: Mapping[str, Card], *, wsl: bool | None = None, has_context: bool = False
) -> Memory:
    """The memory of the GPUs that llama.cpp offloads to; `cards` as they were before it woke them up.

    `has_context`: `cards` are as they were after that, by the process that will load; nothing is taken off for its
    context then. llama.cpp spreads layers over all of them, so their memory counts together. What NVML says is
    preferred. Under WSL both views are known to miss what Windows uses; the lesser counts.
    """
    wsl = under_wsl() if wsl is None else wsl
    context = 0 if has_context else CUDA_CONTEXT
    views = [_one_gpu(gpu, cards.get(pci_address(gpu.pci_id)), context, wsl=wsl) for gpu in gpus]
    first = views[0]
    name = first.device if len(views) == 1 else f"{len(views)} × {first.device}"
    totals = (sum(v.total for v in views), sum(v.free for v in views), sum(v.overhead for v in views))
    return Memory(name, *totals, sum(v.margin for v in views), True)


def _one_gpu(gpu: Gpu, card: Card | None, context: int, *, wsl: bool) -> Memory:
    if card is None:
        # Asked after llama.cpp made its context, which is thus already counted.
        return Memory(gpu.name, gpu.total, gpu.free, 0, SHARED_MARGIN if wsl else MARGIN, True)
    free = min(card.free, gpu.free + context) if wsl else card.free
    margin = SHARED_MARGIN if wsl or card.display else MARGIN
    return Memory(card.name, card.total, free, context, margin, True)


def under_wsl() -> bool:
    """Whether this is Linux inside Windows."""
    try:
        return "microsoft" in Path("/proc/version").read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False
