"""Which device computes, and how much memory it has."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from specchat.llama.gpus import gpus
from specchat.llama.library import library


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of the device that computes, in bytes."""

    device: str
    used_bytes: int
    """Resident memory of this process on a CPU, memory in use on a GPU."""
    free_bytes: int


def device_memory() -> DeviceMemory:
    """Memory of the first GPU that llama.cpp offloads to, else of this process and its machine."""
    gpu = next(iter(gpus()), None)
    if gpu is not None:
        return DeviceMemory(gpu.name, gpu.total - gpu.free, gpu.free)
    rss = psutil.Process(os.getpid()).memory_info().rss
    return DeviceMemory("CPU", rss, psutil.virtual_memory().available)


def machine() -> list[str]:
    """What the time of a forward pass depends on besides the model: device, driver, build."""
    gpu = next(iter(gpus()), None)
    driver = Path("/proc/driver/nvidia/version")
    return [
        gpu.name if gpu is not None else platform.processor() or platform.machine(),
        driver.read_text(encoding="utf-8", errors="replace") if gpu is not None and driver.exists() else "",
        library().api.llama_print_system_info().decode(errors="replace"),
        importlib.metadata.version("llama-cpp-python"),
    ]
