"""The likeliest tokens of a row, and how likely they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.columns import at_least, bound_of_largest, column_peaks
from specchat.speculation.logits import adjusted, require_finite_peak
from specchat.speculation.params import SamplingParams
from specchat.speculation.truncation import normaliser


def likeliest(
    logits: NDArray[np.floating[Any]], history: Sequence[int], params: SamplingParams, n: int
) -> list[tuple[int, float]]:
    """The `n` likeliest tokens that `logits` [V] give after `history`, and their probabilities, descending.

    Bias, penalties and temperature count, truncation does not; where the most likely token is always taken, these are
    the probabilities at temperature 1: how sure the model is. Ties: the lower id first. Raises ValueError for a row
    that makes no distribution.
    """
    row = adjusted(logits, history, params)
    if params.steepness != 1:
        row = row * np.float32(params.steepness)
    peaks = column_peaks(row)
    peak = float(peaks[peaks.argmax()])
    require_finite_peak(peak)
    ids = at_least(row, peaks, bound_of_largest(row, peaks, min(n, row.size)))
    values = row[ids].astype(np.float64)
    best = np.lexsort((ids, -values))[:n]
    probabilities = np.exp(values[best] - peak) / normaliser(row, peak)
    found = zip(ids[best].tolist(), probabilities.tolist(), strict=True)
    return [(token, probability) for token, probability in found if probability > 0]
