"""Which device computes, and how much memory it has."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

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
    if library().offloads:
        gpu = _first_gpu()
        if gpu is not None:
            return gpu
    rss = psutil.Process(os.getpid()).memory_info().rss
    return DeviceMemory("CPU", rss, psutil.virtual_memory().available)


def machine() -> list[str]:
    """What the time of a forward pass depends on besides the model: device, driver, build."""
    lib = library()
    gpu = _first_gpu() if lib.offloads else None
    driver = Path("/proc/driver/nvidia/version")
    return [
        gpu.device if gpu is not None else platform.processor() or platform.machine(),
        driver.read_text(encoding="utf-8", errors="replace") if gpu is not None and driver.exists() else "",
        lib.api.llama_print_system_info().decode(errors="replace"),
        importlib.metadata.version("llama-cpp-python"),
    ]


_GPU_TYPES = (1, 2)  # GGML_BACKEND_DEVICE_TYPE_GPU, _IGPU: ggml/include/ggml-backend.h


def _first_gpu() -> DeviceMemory | None:
    ggml = _ggml()
    for index in range(ggml.ggml_backend_dev_count()):
        device = ctypes.c_void_p(ggml.ggml_backend_dev_get(index))
        if ggml.ggml_backend_dev_type(device) in _GPU_TYPES:
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            ggml.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
            name = ggml.ggml_backend_dev_description(device) or b"GPU"
            return DeviceMemory(name.decode(errors="replace"), total.value - free.value, free.value)
    return None


def _ggml() -> ctypes.CDLL:
    """The device registry; the package binds libllama only, but its dependency is loaded with it."""
    library()
    import llama_cpp

    directory = Path(llama_cpp.__file__).parent / "lib"
    names = {"win32": "ggml.dll", "darwin": "libggml.dylib"}
    ggml = ctypes.CDLL(str(directory / names.get(sys.platform, "libggml.so")))
    ggml.ggml_backend_dev_count.restype = ctypes.c_size_t
    ggml.ggml_backend_dev_get.restype = ctypes.c_void_p
    ggml.ggml_backend_dev_get.argtypes = [ctypes.c_size_t]
    ggml.ggml_backend_dev_description.restype = ctypes.c_char_p
    return ggml
