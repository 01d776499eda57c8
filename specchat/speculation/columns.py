"""One logits row seen as a grid of columns, so that its largest values are found without a selection.

`argpartition` over a vocabulary of 150,000 costs more than all the rest of a sampler chain. A row viewed as a
matrix with `COLUMNS` columns gives up the largest value of each column in one fast pass, and the k-th largest
of those is a lower bound for the k-th largest of the row: only the few columns that reach it can hold a
candidate. Token `id` stands in column `id % COLUMNS`; the last line of the grid may be incomplete (the tail).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
Ids = NDArray[np.int64]

_Bounds = np.float64 | NDArray[np.float64]

COLUMNS = 2048
_LOWEST = float(np.finfo(np.float32).min)


def column_peaks(row: Row) -> Row:
    """Return the largest value (or NaN) of each column of `row` [V]: shape [min(V, COLUMNS)]."""
    return _reduced(row, np.maximum)


def column_sums(row: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the sum of each column of `row` [V] as float64: shape [min(V, COLUMNS)].

    Within a column the sum is taken in the row's own precision: V / COLUMNS additions, a few ulp.
    """
    return _reduced(row, np.add).astype(np.float64)


def at_least(row: Row, peaks: Row, bound: float) -> Ids:
    """Return the ids of all values ≥ `bound` in `row` [V], ascending; −inf is never among them.

    `peaks` is `column_peaks(row)`: columns that stay below the bound are not looked at.
    """
    # A Python float would be rounded to the row's precision.
    limit = np.float64(max(bound, _LOWEST))
    return _gathered(row, (peaks >= limit).nonzero()[0], limit, limit)


def at_least_by_column(row: Row, peaks: Row, bounds: NDArray[np.float64]) -> Ids:
    """Return the ids of all values ≥ the bound of their column in `row` [V], ascending.

    `bounds` are finite and as many as `peaks`, which is `column_peaks(row)`.
    """
    reaching = (peaks >= bounds).nonzero()[0]
    return _gathered(row, reaching, bounds[reaching], bounds[: row.size % COLUMNS])


def bound_of_largest(row: Row, peaks: Row, count: int) -> float:
    """Return a value that at least the `count` largest of `row` [V] reach, and preferably few others.

    −inf when the row has no more than `count` values. `peaks` is `column_peaks(row)`.
    """
    if count >= row.size:
        return -np.inf
    # When a large share of the columns is asked for, their peaks bound little: select over the row itself.
    values = peaks if count <= peaks.size // 4 else row
    place = values.size - count
    return float(np.partition(values, place)[place])


def _gathered(row: Row, columns: Ids, bounds: _Bounds, tail_bounds: _Bounds) -> Ids:
    """Return the ids of what reaches `bounds` in the `columns` of the grid, or `tail_bounds` in the tail."""
    height = row.size // COLUMNS
    grid = row[: height * COLUMNS].reshape(height, COLUMNS).take(columns, axis=1)
    # Line by line over ascending columns is ascending in the token id.
    line, place = np.divmod((grid >= bounds).ravel().nonzero()[0], columns.size)
    ids: Ids = line * COLUMNS + columns[place]
    tail = (row[height * COLUMNS :] >= tail_bounds).nonzero()[0]
    return np.concatenate((ids, tail + height * COLUMNS)) if tail.size else ids


def _reduced(row: NDArray[np.floating[Any]], operation: np.ufunc) -> NDArray[Any]:
    height = row.size // COLUMNS
    if height == 0:
        return row.copy()
    tail = row[height * COLUMNS :]
    reduced: NDArray[Any] = operation.reduce(row[: height * COLUMNS].reshape(height, COLUMNS), axis=0)
    operation(reduced[: tail.size], tail, out=reduced[: tail.size])
    return reduced
