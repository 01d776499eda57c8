"""Random blocks of quantised weights, written as bytes: no number is ever rounded to a block.

Layouts: ggml/src/ggml-common.h. A tile of a few ten megabytes is made once a type and read in circles: its number of
blocks is a prime, so that every row of a matrix begins elsewhere in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from numpy.typing import NDArray

_PRIMES = (4_099, 262_147)
_SAMPLE = 512
"""Blocks whose values are looked at to find the scale."""
# Where the half-precision scale of a block lies; of Q4_K a second one, for the minima, follows it.
_SCALE_AT = {Kind.Q8_0: 0, Kind.Q4_K: 0, Kind.Q6_K: 208}


class Tile:
    """Blocks of one type whose values have a mean near 0 and the standard deviation `spread`."""

    def __init__(self, kind: Kind, spread: float, rows: int, rng: np.random.Generator) -> None:
        count = next(prime for prime in _PRIMES if prime > rows)
        _, self.block_bytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = np.frombuffer(rng.bytes(count * self.block_bytes), dtype=np.uint8).reshape(count, -1).copy()
        if kind is Kind.Q4_K:
            _level_minima(blocks)
        if kind is Kind.Q6_K:
            # Sixteen scales of a signed byte: small ones keep the block's own scale out of the subnormals.
            blocks[:, 192:208] &= 15
        _set_scale(blocks, kind, 1.0)
        deviation = float(gguf.quants.dequantize(blocks[:_SAMPLE], kind).std())
        _set_scale(blocks, kind, spread / deviation)
        self.count = count
        self._bytes = memoryview(blocks.tobytes())

    def read(self, start: int, n_bytes: int) -> Iterator[memoryview]:
        """`n_bytes` of whole blocks from block `start` on, in pieces."""
        at = start % self.count * self.block_bytes
        while n_bytes:
            piece = self._bytes[at : at + n_bytes]
            yield piece
            n_bytes -= len(piece)
            at = 0


def _level_minima(blocks: NDArray[np.uint8]) -> None:
    """Make the eight 6-bit minima of each Q4_K block equal to its scales: with 7.5 times their unit the mean is 0."""
    blocks[:, 8:12] = blocks[:, 4:8]
    blocks[:, 12:16] = (blocks[:, 12:16] & 15) * 17


def _set_scale(blocks: NDArray[np.uint8], kind: Kind, scale: float) -> None:
    at = _SCALE_AT[kind]
    blocks[:, at : at + 2] = np.array([scale], dtype="<f2").view(np.uint8)
    if kind is Kind.Q4_K:
        blocks[:, 2:4] = np.array([7.5 * scale], dtype="<f2").view(np.uint8)
