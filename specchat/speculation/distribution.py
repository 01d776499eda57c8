"""Logits and history in, the distribution a token is drawn from out: one chain for target and draft alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.columns import COLUMNS, Ids, Row, column_sums
from specchat.speculation.logits import adjusted, require_finite_peak
from specchat.speculation.params import SamplingParams
from specchat.speculation.truncation import survivors

__all__ = ["Distribution", "SamplingParams", "warp"]

Probs = NDArray[np.floating[Any]]

# glibc gives a freed block back to the system unless a larger one has been freed before. Dense rows would then
# cost 150 page faults each, as much as half of their softmax; this block is never touched, and costs nothing.
_untouched = np.empty(1 << 24, dtype=np.uint8)
del _untouched

_CERTAIN = np.ones(1)
_CERTAIN.flags.writeable = False
# What the mass of a residual may be by rounding alone, by the item size of the probabilities in bytes.
_ROUNDING = {size: 4 * float(np.finfo(f"f{size}").eps) for size in (4, 8)}


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """A probability distribution over token ids.

    `ids` [n] int64, ascending and without repeats, are the tokens it may hold, or None for all from 0 to n −
    1 (dense). `probs` [n] sum to 1 within rounding; entries may be 0. Truncated distributions are float64,
    dense ones float32: half the time for an error of 1e-7, far below the noise of the logits themselves.
    """

    ids: Ids | None
    probs: Probs

    @classmethod
    def one_hot(cls, token: int) -> Distribution:
        """Return the distribution that always gives `token`."""
        return cls(np.array([token], dtype=np.int64), _CERTAIN)

    def prob(self, token: int) -> float:
        """Return the probability of `token`; 0 for an id it does not hold."""
        if self.ids is None:
            return float(self.probs[token]) if 0 <= token < self.probs.size else 0.0
        place = int(self.ids.searchsorted(token))
        return float(self.probs[place]) if place < self.ids.size and self.ids[place] == token else 0.0

    def probs_at(self, ids: Ids) -> Probs:
        """Return the probabilities [n] of `ids` [n]; 0 for ids it does not hold."""
        if self.ids is None:
            held = ids < self.probs.size
            return np.where(held, self.probs[ids * held], 0)
        places = np.minimum(self.ids.searchsorted(ids), self.ids.size - 1)
        return np.where(self.ids[places] == ids, self.probs[places], 0)

    def sample(self, u: float) -> int:
        """Return the token at `u` in [0, 1) of the cumulative distribution; never one of probability 0.

        A dense distribution is walked column by column (see `columns`), any fixed order being as good as
        another: a cumulative sum over a whole row costs more than its softmax. Raises ValueError for other
        `u`.
        """
        if not 0 <= u < 1:
            raise ValueError(f"A distribution is sampled with a number in [0, 1), not {u}.")
        if self.ids is not None:
            if self.ids.size == 1:
                return int(self.ids[0])
            cumulative = self.probs.cumsum()
            return int(self.ids[_first_above(cumulative, u * cumulative[-1])])
        sums = column_sums(self.probs)
        cumulative = sums.cumsum()
        goal = u * cumulative[-1]
        column = _first_above(cumulative, goal)
        within = (goal - (cumulative[column] - sums[column])) / sums[column]
        inner = self.probs[column::COLUMNS].cumsum(dtype=np.float64)
        return column + COLUMNS * _first_above(inner, within * inner[-1])

    def excess(self, q: Distribution | int, scale: float = 1.0) -> float:
        """Return Σ max(scale·p − q, 0); an int stands for the one-hot distribution of that token."""
        return float(self._excess(q, scale).sum())

    def residual(self, q: Distribution | int, scale: float = 1.0) -> Distribution:
        """Return norm(max(scale·p − q, 0)), from which a rejected draft token is replaced.

        `scale` is 1 in rejection sampling (2211.17192, section 2.3) and the running ratio w in block
        verification (2403.10444, section 3); an int stands for the one-hot distribution of that token. Where
        p = q there is no residual, and no rejection but by rounding: a mass within rounding is noise, and p
        itself is returned.
        """
        weights = self._excess(q, scale)
        mass = weights.sum()
        coarser = self.probs.itemsize if isinstance(q, int) else min(self.probs.itemsize, q.probs.itemsize)
        if mass <= _ROUNDING[coarser]:
            return self
        weights /= mass
        if self.ids is None:
            return Distribution(None, weights)
        kept = weights > 0
        return Distribution(self.ids[kept], weights[kept])

    def argmax(self) -> int:
        """Return the most likely token, the lowest id among equals."""
        place = int(self.probs.argmax())
        return place if self.ids is None else int(self.ids[place])

    def entropy(self) -> float:
        """Return −Σ p·log p, in nats."""
        held = self.probs[self.probs > 0].astype(np.float64)
        return float(-(held * np.log(held)).sum())

    def _excess(self, q: Distribution | int, scale: float) -> Probs:
        if isinstance(q, int):
            q = Distribution.one_hot(q)
        weights: Probs = self.probs * scale
        if self.ids is not None:
            weights -= q.probs_at(self.ids)
        elif q.ids is not None:
            inside = q.ids < weights.size
            weights[q.ids[inside]] -= q.probs[inside]
        else:
            shared = min(weights.size, q.probs.size)
            weights[:shared] -= q.probs[:shared]
        np.maximum(weights, 0, out=weights)
        return weights


def warp(logits: NDArray[np.floating[Any]], history: Sequence[int], params: SamplingParams) -> Distribution:
    """Return the distribution that `logits` [V] give after `history` (the drafted prefix included).

    The chain: logit bias, penalties, top-k, top-p, min-p, then temperature and softmax, so that truncation
    looks at untempered probabilities as llama.cpp's does; temperature 0 takes the most likely token after the
    penalties. `logits` is only read. Target and draft both go through here: exactness needs the distribution
    each token was really drawn from, and acceptance is highest when both are cut alike. Raises ValueError
    when `logits` is not a row, holds NaN or +inf, or leaves no token.
    """
    row = adjusted(logits, history, params)
    if params.greedy:
        token = int(row.argmax())  # numpy takes a NaN for the largest, so one look at the winner is enough
        require_finite_peak(float(row[token]))
        return Distribution.one_hot(token)
    if not params.truncates:
        return Distribution(None, _softmax(row, params.steepness))
    ids, values = survivors(row, params)
    weights = np.exp((values - values.max()) * params.steepness)
    return Distribution(ids, weights / weights.sum())


def _softmax(row: Row, steepness: float) -> Row:
    peak = row.max()
    require_finite_peak(float(peak))
    weights: Row = np.subtract(row, peak)
    if steepness != 1:
        np.multiply(weights, np.float32(steepness), out=weights)
    np.exp(weights, out=weights)
    np.multiply(weights, np.float32(1 / column_sums(weights).sum()), out=weights)
    return weights


def _first_above(cumulative: NDArray[np.float64], goal: float) -> int:
    """Return the first place where `cumulative` exceeds `goal`: the weight there is above 0."""
    place = int(cumulative.searchsorted(goal, side="right"))
    # Rounding can lift the goal to the total itself: then the last place with any weight is meant.
    return place if place < cumulative.size else int(cumulative.searchsorted(cumulative[-1]))
