"""The second half of the sampler chain: which tokens survive top-k, top-p and min-p.

All three keep a prefix of the tokens in descending order of their logits (ties: the lower id first), so the
chain keeps the shortest of three prefixes, and only candidates for it are ever sorted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.columns import Ids, Row, at_least, bound_of_largest, column_peaks, column_sums
from specchat.speculation.logits import require_finite_peak
from specchat.speculation.params import SamplingParams

# The nucleus is looked for among so many tokens at first, then among so many times more.
_FIRST_GUESS, _GROWTH = 64, 8


def survivors(row: Row, params: SamplingParams) -> tuple[Ids, NDArray[np.float64]]:
    """Return the ids that top-k, top-p and min-p leave of `row` [V], ascending, and their logits.

    llama.cpp's order: top-p sees the untempered probabilities, renormalised over what top-k left; min-p looks
    at ratios only, so its place in the order is free. Without top-k the normaliser of top-p is summed in
    single precision: a nucleus whose mass meets `top_p` to within 1e-6 may be one token off the real numbers'
    one. Raises ValueError when the row holds NaN or +inf, or nothing but −inf.
    """
    peaks = column_peaks(row)
    peak = float(peaks[peaks.argmax()])  # numpy takes a NaN for the largest
    require_finite_peak(peak)
    floor = peak + math.log(params.min_p) if params.min_p > 0 else -math.inf
    if params.top_k > 0:
        ids = at_least(row, peaks, bound_of_largest(row, peaks, params.top_k))
        return _prefix(row, ids, params.top_k, None, floor, params.top_p)
    if params.top_p < 1:
        total = normaliser(row, peak)
        ids = _nucleus_candidates(row, peaks, floor, params.top_p * total)
        return _prefix(row, ids, ids.size, total, floor, params.top_p)
    ids = at_least(row, peaks, floor)
    return ids, row[ids].astype(np.float64)


def _prefix(
    row: Row, ids: Ids, top_k: int, total: float | None, floor: float, top_p: float
) -> tuple[Ids, NDArray[np.float64]]:
    """Return the candidates among `ids` [n] that every truncation keeps, ascending, and their logits.

    `total` is the normaliser of top-p in units of exp(logit − peak); None means the sum over the `top_k`.
    """
    values = row[ids].astype(np.float64)
    # Sorting bare values is several times faster than sorting ids by them; the cut tells the ids.
    descending = np.sort(values)[::-1][:top_k]
    size = descending.size
    if top_p < 1:
        mass = np.exp(descending - descending[0]).cumsum()
        size = min(size, int(mass.searchsorted(top_p * (total or mass[-1]))) + 1)
    cut = max(float(descending[size - 1]), floor)
    kept = values >= cut
    surplus = int(np.count_nonzero(kept)) - size
    if surplus > 0:  # ties at the cut: the highest ids go
        kept[(values == cut).nonzero()[0][-surplus:]] = False
    return ids[kept], values[kept]


def normaliser(row: Row, peak: float) -> float:
    """Return Σ exp(logit − peak) over the row."""
    weights = np.subtract(row, np.float32(peak))
    np.exp(weights, out=weights)
    return float(column_sums(weights).sum())


def _nucleus_candidates(row: Row, peaks: Row, floor: float, mass: float) -> Ids:
    """Return ids that include the nucleus of `mass` (in units of exp(logit − peak)), none below `floor`.

    The most likely tokens are taken in growing numbers until they hold the mass.
    """
    peak = float(peaks.max())
    count = _FIRST_GUESS
    while True:
        bound = max(floor, bound_of_largest(row, peaks, count))
        ids = at_least(row, peaks, bound)
        if bound == floor or np.exp(row[ids].astype(np.float64) - peak).sum() >= mass:
            return ids
        count *= _GROWTH
