"""The rows of logits that a pass leaves behind."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.llama.errors import DecodeFailed
from specchat.llama.library import library

Logits = NDArray[np.float32]


class OutputRows:
    """A view [at most `most`, vocabulary] of the output buffer of the context behind `handle`.

    The buffer seldom moves, and building a view costs more than a slice.
    """

    def __init__(self, handle: Any, most: int, n_tokens: int) -> None:
        self._handle = handle
        self._shape = (most, n_tokens)
        self._address_of = library().address_of_logits
        self._address: int | None = None
        self._all: Logits = np.empty((0, n_tokens), dtype=np.float32)

    def first(self, rows: int) -> Logits:
        """The first `rows` of the latest pass, valid until the next. Raises DecodeFailed."""
        if rows == 0:
            return self._all[:0]
        # This call waits for the device: without it a GPU would still be computing.
        address = self._address_of(self._handle)
        if address != self._address:
            self._map(address)
        return self._all[:rows]

    def _map(self, address: int | None) -> None:
        if address is None:
            raise DecodeFailed("llama.cpp computed no logits.")
        raw = (ctypes.c_float * (self._shape[0] * self._shape[1])).from_address(address)
        self._all = np.frombuffer(memoryview(raw).cast("B"), dtype=np.float32).reshape(self._shape)
        self._address = address
