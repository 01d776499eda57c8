"""Suffix arrays of token ids, and looking up what a text ends with in them.

A suffix array lists the positions of a text in the order of the suffixes that begin there, so that all places where
a pattern occurs are one interval of its rows (Manber & Myers 1993).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32] | memoryview
"""int32 values side by side; a memoryview (format "i") of a mapped file is never copied."""


def suffix_array(tokens: NDArray[np.int32]) -> NDArray[np.int32]:
    """Positions [n] of all suffixes of `tokens` [n], in lexicographic order; a prefix stands before what extends it.

    Takes about 10 bytes a token besides the result, 17 where more than 65,536 different tokens occur.

    Raises ValueError for negative tokens and for texts whose byte string outgrows 32-bit positions (715 M tokens).
    """
    if len(tokens) == 0:
        return np.zeros(0, np.int32)
    if int(tokens.min()) < 0:
        raise ValueError("Token ids can't be negative.")
    text, width = _big_endian(tokens)
    if len(text) > np.iinfo(np.int32).max:
        raise ValueError(f"{len(tokens):,} tokens are too many for one suffix array.")
    # Only now: the library takes a moment to load, and looking up needs none of it.
    from pydivsufsort import divsufsort  # type: ignore[import-untyped]

    # The library's array wraps a ctypes one; its element type must be numpy's own for memoryviews to read it.
    rows: NDArray[np.int32] = divsufsort(text).view(np.int32)
    if width == 1:
        return rows
    # Among byte suffixes, those at whole tokens stand in the order of the token suffixes.
    whole: NDArray[np.int32] = rows[rows % width == 0]
    whole //= width
    return whole


def _big_endian(tokens: NDArray[np.int32]) -> tuple[NDArray[np.uint8], int]:
    """The ranks of `tokens` among those that occur, as big-endian bytes [n · width], and the width."""
    occurs = np.zeros(int(tokens.max()) + 1, np.bool_)
    occurs[tokens] = True
    ranks = np.cumsum(occurs, dtype=np.int32) - 1
    width = max(1, -(-int(ranks[-1]).bit_length() // 8))
    digits = ranks.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 4 - width :]
    return np.ascontiguousarray(digits)[tokens].reshape(-1), width


def first_rows(tokens: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """Where each first token's rows begin in the suffix array of `tokens`, and the end: [size + 1].

    Raises ValueError where a token is `size` or more.
    """
    counts = np.bincount(tokens, minlength=size)
    if len(counts) > size:
        raise ValueError(f"Token {len(counts) - 1} is outside a vocabulary of {size}.")
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def _view(ids: Ids) -> memoryview:
    # Single elements and short slices of a memoryview are read several times faster than those of an array.
    return ids if isinstance(ids, memoryview) else memoryview(ids)  # type: ignore[arg-type]


def interval(tokens: Ids, order: Ids, pattern: Sequence[int], low: int = 0, high: int | None = None) -> tuple[int, int]:
    """Rows of `order` from low to high (excluded) whose suffixes start with `pattern`; equal where none does.

    `order` is the suffix array of `tokens`. `low` and `high` narrow the rows that are looked at, for a caller who
    knows those of the first token.
    """
    if high is None:
        high = len(order)
    if not pattern:
        return low, high
    text, rows, wanted, n = _view(tokens), _view(order), list(pattern), len(pattern)

    def start(row: int) -> list[int]:
        return text[row : row + n].tolist()

    low = bisect_left(rows, wanted, low, high, key=start)
    if low == high or start(rows[low]) != wanted:
        return low, low
    # Most intervals are short: look for their end in growing strides.
    inside, stride = low, 1
    while inside + stride < high and start(rows[inside + stride]) == wanted:
        inside += stride
        stride *= 2
    wanted[-1] += 1
    return low, bisect_left(rows, wanted, inside + 1, min(inside + stride, high), key=start)


def longest_match(
    tokens: Ids, order: Ids, ids: Sequence[int], longest: int, shortest: int, firsts: Ids | None = None
) -> tuple[int, int, int]:
    """The longest suffix of `ids` of `shortest` to `longest` tokens that occurs in `tokens`.

    Returns its length and its rows of `order`, low to high (excluded); (0, 0, 0) where none occurs. `firsts` is what
    `first_rows` gave for `tokens`: with it fewer rows are looked at.
    """
    shortest, longest = max(shortest, 1), min(longest, len(ids))
    found = (0, 0, 0)
    low, high = 0, len(order)
    # Where a suffix occurs, every shorter one does: halve the range of lengths, as the rows are halved.
    while shortest <= longest:
        length = (shortest + longest) // 2
        pattern = ids[len(ids) - length :]
        if firsts is not None:
            known = 0 <= pattern[0] < len(firsts) - 1
            low, high = (int(firsts[pattern[0]]), int(firsts[pattern[0] + 1])) if known else (0, 0)
        first, last = interval(tokens, order, pattern, low, high)
        if first < last:
            found, shortest = (length, first, last), length + 1
        else:
            longest = length - 1
    return found
