"""A reusable input batch for one text."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.llama.library import library


class Batch:
    """A `llama_batch` whose arrays are numpy's: filling it costs a few slice writes, not a loop of ctypes stores.

    Every row belongs to each of the `sequences` (ids from 0), which hold the same text. `output` flags which rows get
    logits.
    """

    def __init__(self, capacity: int, sequences: int = 1) -> None:
        api = library().api
        self.capacity = capacity
        self._token = np.zeros(capacity, dtype=np.int32)
        self._pos = np.zeros(capacity, dtype=np.int32)
        self._n_seq = np.full(capacity, sequences, dtype=np.int32)
        self._output = np.zeros(capacity, dtype=np.int8)
        self._sequences = (ctypes.c_int32 * sequences)(*range(sequences))
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._seq_ids = (pointer * capacity)(*[ctypes.cast(self._sequences, pointer)] * capacity)
        self._positions = np.arange(capacity, dtype=np.int32)
        self.struct: Any = api.llama_batch()
        self.struct.token = self._token.ctypes.data_as(pointer)
        self.struct.pos = self._pos.ctypes.data_as(pointer)
        self.struct.n_seq_id = self._n_seq.ctypes.data_as(pointer)
        self.struct.seq_id = ctypes.cast(self._seq_ids, ctypes.POINTER(pointer))
        self.struct.logits = self._output.ctypes.data_as(ctypes.POINTER(ctypes.c_int8))

    def fill(self, tokens: Sequence[int], start: int, outputs: int) -> None:
        """Hold `tokens` at positions `start`…, with logits for the last `outputs` of them."""
        n = len(tokens)
        if n == 1:
            # Plain decoding comes here for every token: four stores instead of four slices.
            self._token[0], self._pos[0], self._output[0] = tokens[0], start, outputs
            self.struct.n_tokens = 1
            return
        self._token[:n] = tokens
        np.add(self._positions[:n], start, out=self._pos[:n])
        self._output[: n - outputs] = 0
        self._output[n - outputs : n] = 1
        self.struct.n_tokens = n


class StateBatch(Batch):
    """A batch whose rows carry a vector each, `states` [capacity, width] float32, beside or instead of a token.

    `ways`: in how many ways the model counts the position of a row that has no token (M-RoPE: 4).
    """

    def __init__(self, capacity: int, width: int, ways: int = 1) -> None:
        super().__init__(capacity)
        self._ways = ways
        self._pos = np.zeros(capacity * ways, dtype=np.int32)
        self.struct.pos = self._pos.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        self.states = np.zeros((capacity, width), dtype=np.float32)
        self._tokens = self.struct.token
        self.struct.embd = self.states.ctypes.data_as(ctypes.POINTER(ctypes.c_float))

    def fill_pairs(self, tokens: Sequence[int], states: NDArray[np.float32], start: int, outputs: int) -> None:
        """Hold `tokens`, each with its row of `states` [len(tokens), width], as `fill` does."""
        self.struct.token = self._tokens
        self.fill(tokens, start, outputs)
        self.states[: len(tokens)] = states

    def fill_states(self, states: NDArray[np.float32], start: int, *, outputs: bool = True) -> None:
        """Hold `states` [rows, width] without tokens, with outputs for all or none."""
        n = len(states)
        self.struct.token = ctypes.POINTER(ctypes.c_int32)()
        # Each way of counting in turn. Text counts the same in all of them, but for one that it doesn't use.
        for way in range(min(self._ways, 3)):
            np.add(self._positions[:n], start, out=self._pos[way * n : way * n + n])
        self._pos[3 * n : self._ways * n] = 0
        self._output[:n] = outputs
        self.states[:n] = states
        self.struct.n_tokens = n
