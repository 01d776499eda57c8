"""Cancelling a pass while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Abortable:
    """Lets a running pass be cancelled (CPU only) while it is installed.

    llama.cpp asks before every node of the graph, about a thousand Python calls a pass: worth it for a prefill of
    seconds, not for a step of milliseconds.
    """

    def __init__(self, api: Any, handle: Any, cancelled: Callable[[], bool]) -> None:
        self._api = api
        self._handle = handle
        self._callback = api.ggml_abort_callback(lambda _data: cancelled())

    def __enter__(self) -> None:
        self._api.llama_set_abort_callback(self._handle, self._callback, None)

    def __exit__(self, *_: object) -> None:
        self._api.llama_set_abort_callback(self._handle, self._api.ggml_abort_callback(0), None)
