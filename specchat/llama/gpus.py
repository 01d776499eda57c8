"""The GPUs that llama.cpp can put layers on: what ggml's device registry knows of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

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


@cache
def registry() -> Any:
    """The functions of ggml's device registry, which llama-cpp-python doesn't bind.

    Raises AttributeError where libllama doesn't lead to them (Windows).
    """
    # A handle of its own: types set on the package's would change them for others.
    ggml = ctypes.CDLL(library().api._lib._name)
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("ggml_backend_dev_count", ctypes.c_size_t, []),
        ("ggml_backend_dev_get", pointer, [ctypes.c_size_t]),
        ("ggml_backend_dev_get_props", None, [pointer, ctypes.POINTER(_Props)]),
        ("ggml_backend_dev_type", ctypes.c_int, [pointer]),
        ("ggml_backend_buft_get_device", pointer, [pointer]),
        ("ggml_backend_buft_is_host", ctypes.c_bool, [pointer]),
    ):
        function = getattr(ggml, name)
        function.restype, function.argtypes = result, arguments
    return ggml


def gpus() -> list[Gpu]:
    """The GPUs of this machine that this build offloads to, in llama.cpp's order; asking creates a context on each."""
    if not library().offloads:
        return []
    ggml = registry()
    devices = [ggml.ggml_backend_dev_get(index) for index in range(ggml.ggml_backend_dev_count())]
    kinds = [ggml.ggml_backend_dev_type(device) for device in devices]
    # llama.cpp leaves a processor's own graphics alone where there is a card.
    wanted = (_DISCRETE,) if _DISCRETE in kinds else _GPU_TYPES
    return [_described(device) for device, kind in zip(devices, kinds, strict=True) if kind in wanted]


def _described(device: int) -> Gpu:
    props = _Props()
    registry().ggml_backend_dev_get_props(device, ctypes.byref(props))
    name = (props.description or props.name or b"GPU").decode(errors="replace")
    pci_id = (props.device_id or b"").decode(errors="replace").lower()
    return Gpu(name, props.memory_free, props.memory_total, pci_id)


def computes_on_gpu(buffer_type: int) -> bool:
    """Whether a buffer of this type (a `ggml_backend_buffer_type_t`) lies in a GPU's memory.

    Pinned host memory belongs to a GPU and lies on the host; repacked weights are no host buffer and lie there too.
    """
    ggml = registry()
    if ggml.ggml_backend_buft_is_host(buffer_type):
        return False
    device = ggml.ggml_backend_buft_get_device(buffer_type)
    return bool(device) and ggml.ggml_backend_dev_type(device) in _GPU_TYPES
