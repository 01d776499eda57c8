"""The first half of the sampler chain: what changes logits before any token is cut."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.columns import Row
from specchat.speculation.params import SamplingParams


def adjusted(logits: NDArray[np.floating[Any]], history: Sequence[int], params: SamplingParams) -> Row:
    """Return `logits` [V] as float32 after logit bias and penalties; the same memory where neither is active.

    Order and formulas are llama.cpp's (`llama_sampler_penalties`): over the last `repeat_last_n` tokens of
    `history`, a logit is divided (if positive) or multiplied (if not) by the repeat penalty, then loses its
    count times the frequency penalty, and the presence penalty once. Ids outside the row are passed over: a
    draft model may know fewer tokens than it is shown. Raises ValueError when `logits` is not a row.
    """
    row: Row = np.asarray(logits, dtype=np.float32)
    if row.ndim != 1 or row.size == 0:
        raise ValueError(f"A logits row has one axis and at least one token, unlike the shape {row.shape}.")
    if not params.logit_bias and not params.penalizes:
        return row
    row = row.copy()  # the logits are the engine's memory, and are read again
    for token, bias in params.logit_bias.items():
        if token < row.size:
            row[token] += np.float32(bias)
    if params.penalizes:
        _penalize(row, history[-params.repeat_last_n :], params)
    return row


def _penalize(row: Row, recent: Sequence[int], params: SamplingParams) -> None:
    counts = {token: times for token, times in Counter(recent).items() if 0 <= token < row.size}
    ids = np.fromiter(counts.keys(), dtype=np.int64, count=len(counts))
    times = np.fromiter(counts.values(), dtype=np.float64, count=len(counts))
    values = row[ids].astype(np.float64)
    values = np.where(values > 0, values / params.repeat_penalty, values * params.repeat_penalty)
    row[ids] = values - times * params.frequency_penalty - params.presence_penalty


def require_finite_peak(peak: float) -> None:
    """Raise ValueError when `peak`, the largest of a logits row, shows that it makes no distribution."""
    if math.isfinite(peak):
        return
    if peak == -math.inf:
        raise ValueError("Every token has the logit -inf: there is nothing left to choose from.")
    raise ValueError(f"The model returned the logit {peak}, of which no probability can be made.")
