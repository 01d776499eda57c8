"""The GPUs that llama.cpp can put layers on: what ggml's device registry knows of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Final

from specchat.llama.ggml_exports import FunctionMissing, ggml_function
from specchat.llama.library import library

# GGML_BACKEND_DEVICE_TYPE_GPU, _IGPU: ggml/include/ggml-backend.h
_DISCRETE: Final = 1
_GPU_TYPES: Final = (_DISCRETE, 2)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU; memory in bytes, as its driver sees it with this process's own context already there."""

    name: str
    free: int
    total: int
    pci_id: str
    """`domain:bus:device.function` in lower-case hexadecimal; empty where it has none."""


class _Caps(ctypes.Structure):
    # C writes five flags; room for some more costs nothing, and too little would be overrun.
    _fields_ = [("flags", ctypes.c_bool * 16)]


class _Props(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("caps", _Caps),
    ]


class Registry:
    """The functions of ggml's device registry. Raises FunctionMissing for a build that lacks one."""

    def __init__(self) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.count = ggml_function("ggml_backend_dev_count", size)
        self.get = ggml_function("ggml_backend_dev_get", pointer, size)
        self.props = ggml_function("ggml_backend_dev_get_props", None, pointer, ctypes.POINTER(_Props))
        self.type = ggml_function("ggml_backend_dev_type", ctypes.c_int, pointer)
        self.device_of = ggml_function("ggml_backend_buft_get_device", pointer, pointer)
        self.is_host = ggml_function("ggml_backend_buft_is_host", ctypes.c_bool, pointer)


@cache
def registry() -> Registry:
    """The one set of bindings of this process. Raises FunctionMissing."""
    return Registry()


def gpus() -> list[Gpu]:
    """The GPUs of this machine that this build offloads to, in llama.cpp's order; asking creates a context on each.

    None where the build offloads but does not tell where to: `gpus_unknown` says so.
    """
    if not library().offloads or gpus_unknown():
        return []
    ggml = registry()
    devices = [ggml.get(index) for index in range(ggml.count())]
    kinds = [ggml.type(device) for device in devices]
    # llama.cpp leaves a processor's own graphics alone where there is a card.
    wanted = (_DISCRETE,) if _DISCRETE in kinds else _GPU_TYPES
    return [_described(device) for device, kind in zip(devices, kinds, strict=True) if kind in wanted]


def gpus_unknown() -> str | None:
    """Why it can't be told which GPUs this build offloads to, in a sentence; None where it can, or it offloads to none.

    Models run all the same; only what is free on the GPU is not known.
    """
    if not library().offloads:
        return None
    try:
        registry()
    except FunctionMissing as missing:
        return f"{missing} So it can't be told which GPU computes and how much of its memory is free."
    return None


def _described(device: int) -> Gpu:
    props = _Props()
    registry().props(device, ctypes.byref(props))
    name = (props.description or props.name or b"GPU").decode(errors="replace")
    pci_id = (props.device_id or b"").decode(errors="replace").lower()
    return Gpu(name, props.memory_free, props.memory_total, pci_id)


def computes_on_gpu(buffer_type: int) -> bool:
    """Whether a buffer of this type (a `ggml_backend_buffer_type_t`) lies in a GPU's memory. Raises FunctionMissing.

    Pinned host memory belongs to a GPU and lies on the host; repacked weights are no host buffer and lie there too.
    """
    ggml = registry()
    if ggml.is_host(buffer_type):
        return False
    device = ggml.device_of(buffer_type)
    return bool(device) and ggml.type(device) in _GPU_TYPES
