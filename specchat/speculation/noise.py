"""Gumbel noise of a seed, branch, position and token: draft and target share it, and are coupled.

A token drawn as argmax(log p + g), with independent Gumbel noise g, is distributed as p; when draft and
target use the same noise they agree almost as often as rejection sampling accepts, and what the target draws
does not depend on the draft at all (Daliri, Musco, Suresh: 2408.07978, section 3). Here g = −log E with E
exponential, so that the draw is argmax(p / E): the same token without a logarithm of p.

The noise is counter-based (the splitmix64 finaliser over keys), so it is the same on every machine and in
every process, up to the last bit of the platform's logarithm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specchat.speculation.columns import (
    COLUMNS,
    Ids,
    at_least,
    at_least_by_column,
    bound_of_largest,
    column_peaks,
)
from specchat.speculation.distribution import Distribution, Probs

Hashes = NDArray[np.uint64]

# The tokens of one column (see `columns`) make a group; after 128 lines of the grid the next groups begin.
_GROUP = 128
_SLAB = _GROUP * COLUMNS
_LEADERS = 64
_SLACK = 1 - 1e-9  # what rounding may do to a mark that the winner itself has set

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class GumbelNoise:
    """The noise of one seed and branch; a branch is another answer to the same conversation.

    Raises ValueError when the seed or the branch is negative.
    """

    def __init__(self, seed: int, branch: int = 0) -> None:
        if seed < 0 or branch < 0:
            raise ValueError(f"Seed and branch must be at least 0, not {seed} and {branch}.")
        self._key = _mixed(_mixed(seed) + branch)

    def exponentials(self, position: int, ids: Ids) -> NDArray[np.float64]:
        """Return E [n] > 0 for the tokens `ids` [n] at `position`: independent, exponential with mean 1.

        The noise is built from the winner down, so that a dense race need not look at every token: the least
        of a group of 128 is exponential with mean 1/128 and falls on any of them alike; by the lack of memory
        the others exceed it by independent exponentials of mean 1.
        """
        groups = (ids // _SLAB) * COLUMNS + ids % COLUMNS
        least, first = self._groups(position, groups)
        others = _exponential(_hashes(_mixed(self._key + 2 * position + 1), ids))
        return np.where(ids // COLUMNS % _GROUP == first, least, least + others)

    def choose(self, distribution: Distribution, position: int) -> int:
        """Return argmax(log p + g) over the tokens of `distribution`, the lowest id among equals."""
        ids, probs = distribution.ids, distribution.probs
        if ids is None:
            ids = self._contenders(probs, position)
            probs = probs[ids]
        if ids.size == 1:
            return int(ids[0])
        return int(ids[(probs / self.exponentials(position, ids)).argmax()])

    def _groups(self, position: int, groups: Ids) -> tuple[NDArray[np.float64], Ids]:
        """Return the least noise in each of `groups` [n], and which member of the group has it."""
        hashes = _hashes(_mixed(self._key + 2 * position), groups)
        return _exponential(hashes) / _GROUP, (hashes & np.uint64(_GROUP - 1)).astype(np.int64)

    def _contenders(self, probs: Probs, position: int) -> Ids:
        """Return ids of the dense `probs` [V] that include the race's winner, ascending.

        The most likely tokens set a mark; a column where even the likeliest token with the least noise of its
        group stays below it is left out.
        """
        peaks = column_peaks(probs)
        leaders = at_least(probs, peaks, bound_of_largest(probs, peaks, _LEADERS))
        mark = (probs[leaders] / self.exponentials(position, leaders)).max() * _SLACK
        slabs = -(-probs.size // _SLAB)
        least, _ = self._groups(position, np.arange(slabs * COLUMNS))
        bounds = mark * least.reshape(slabs, COLUMNS).min(axis=0)
        return at_least_by_column(probs, peaks, bounds[: peaks.size])


def _mixed(value: int) -> int:
    """Return splitmix64's output for the state `value` (taken modulo 2^64)."""
    z = (value + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * _FIRST) & _MASK
    z = ((z ^ (z >> 27)) * _SECOND) & _MASK
    return z ^ (z >> 31)


def _hashes(key: int, counters: Ids) -> Hashes:
    """Return splitmix64's outputs [n] after `counters` [n] steps from the state `key`."""
    z = counters.astype(np.uint64)
    z *= np.uint64(_GOLDEN)
    z += np.uint64((key + _GOLDEN) & _MASK)
    z ^= z >> np.uint64(30)
    z *= np.uint64(_FIRST)
    z ^= z >> np.uint64(27)
    z *= np.uint64(_SECOND)
    z ^= z >> np.uint64(31)
    return z


def _exponential(hashes: Hashes) -> NDArray[np.float64]:
    """Return −log u [n] for the uniform u in (0, 1) that the upper 52 bits of `hashes` [n] stand for."""
    u = (hashes >> np.uint64(12)).astype(np.float64)
    u += 0.5  # half a step away from both 0 and 1, and still exact
    u *= 2.0**-52
    return -np.log(u)
