"""The rules that turn a draft and the target's own distributions into the tokens of one step.

`Exact`, `Block` and `Coupled` are lossless: what they emit, continued by the target, is distributed as the
target's own text, whatever was drafted. `Typical` is not.
"""

from __future__ import annotations

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from specchat.speculation.distribution import Distribution
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.noise import GumbelNoise
from specchat.speculation.step import Draft, Step
from specchat.speculation.tree import Target, walk

Proposal = Distribution | int
"""What a draft token was drawn from; the token itself where nothing was drawn (one-hot)."""


class AcceptanceRule(Protocol):
    """How tokens are drawn and drafts are judged."""

    name: str
    lossless: bool

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position` from `distribution`, for a draft or for a plain step."""

    def accept(self, draft: Draft, target: Target, position: int) -> Step:
        """Judge `draft`, whose first token stands at absolute `position`; an empty one gives a plain step.

        Each call of `target` costs time: rules ask for few rows. Raises ValueError when a draft token is impossible
        in the distribution it is said to come from, when there is not one distribution for each token, or when
        the draft's parents make no tree.
        """


class _TokenByToken(ABC):
    """Walks a draft up to the first rejection, then adds a token of the target's own."""

    @abstractmethod
    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw the token at absolute `position` from `distribution`, for a draft or for a plain step."""

    @abstractmethod
    def _replacement(self, p: Distribution, q: Proposal, token: int, position: int) -> int | None:
        """Return what the target's `p` puts in the place of `token`, drawn from `q`; None to accept."""

    def accept(self, draft: Draft, target: Target, position: int) -> Step:
        """Judge `draft`, whose first token stands at absolute `position`; an empty one gives a plain step.

        Raises ValueError when a draft token is impossible in the distribution it is said to come from, when there
        is not one distribution for each token, or when the draft's parents make no tree.
        """
        if draft.parents is not None:
            return walk(draft, target, position, self._choose)
        ids, proposals = _parts(draft)
        size = len(ids)
        for i, (token, q) in enumerate(zip(ids, proposals, strict=True)):
            own = self._replacement(target(i), q, token, position + i)
            if own is not None:
                return Step((*ids[:i], own), accepted=i, tested=i + 1, drafted=size)
        own = self.draw(target(size), position + size)
        return Step((*ids, own), accepted=size, tested=size, drafted=size)

    def _choose(self, p: Distribution, proposed: Sequence[int], position: int) -> tuple[int, bool]:
        """Return the token at a node of a tree, and whether it is one of the `proposed` children."""
        own = self.draw(p, position)
        return own, own in proposed


class Exact(_TokenByToken):
    """Rejection sampling (Leviathan 2211.17192, algorithm 1; Chen 2302.01318, algorithm 2).

    Accept d with probability min(1, p(d)/q(d)), else replace it from norm(max(p − q, 0)). A one-hot proposal
    is the case q(d) = 1: accepted with p(d), replaced from p without d. Draws and tests take their numbers
    from `rng` one after the other, so they are independent.
    """

    name = "exact"
    lossless = True

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw from `distribution`; the position plays no part."""
        return distribution.sample(self._rng.random())

    def _replacement(self, p: Distribution, q: Proposal, token: int, position: int) -> int | None:
        if self._rng.random() * _drawn_with(q, token) < p.prob(token):
            return None
        return p.residual(q).sample(self._rng.random())


class Block(Exact):
    """Block verification (Sun et al. 2403.10444, algorithm 2): on average no fewer tokens than `Exact`.

    With w_0 = 1 and w_i = min(w_{i−1}·p_i(d_i)/q_i(d_i), 1), the first n tokens are kept for the largest n
    whose independent u_n < h_n, where h_γ = w_γ, h_n = S_n/(S_n + 1 − w_n) and S_n = Σ max(w_n·p_{n+1} −
    q_{n+1}, 0); the next token comes from norm(max(w_n·p_{n+1} − q_{n+1}, 0)).
    """

    name = "block"
    lossless = True

    def accept(self, draft: Draft, target: Target, position: int) -> Step:
        """Judge `draft` as one block; proposals of one token each as `Exact` does.

        For those the two have the same law, since no ratio exceeds 1, and `Exact` asks for fewer rows. Raises
        ValueError as `Exact` does.
        """
        if draft.distributions is None or draft.parents is not None:
            return super().accept(draft, target, position)
        ids, proposals = _parts(draft)
        size = len(ids)
        rows: list[Distribution] = []
        ratios = [1.0]
        for i, (token, q) in enumerate(zip(ids, proposals, strict=True)):
            rows.append(target(i))
            ratios.append(min(ratios[i] * rows[i].prob(token) / _drawn_with(q, token), 1.0))
            if ratios[-1] == 0:
                break
        kept = self._length(rows, ratios, proposals)
        if kept == size:
            own = self.draw(target(size), position + size)
        else:
            own = self.draw(rows[kept].residual(proposals[kept], ratios[kept]), position + kept)
        tested = min(kept + 1, size)
        return Step((*ids[:kept], own), accepted=kept, tested=tested, drafted=size)

    def _length(self, rows: Sequence[Distribution], ratios: Sequence[float], proposals: Sequence[Proposal]) -> int:
        """Return n, looking from the longest prefix down: the first to pass is the largest."""
        for n in range(len(ratios) - 1, 0, -1):
            w = ratios[n]
            if w == 0:
                continue
            if w == 1 or n == len(proposals):
                chance = w  # at w = 1, h = S/(S + 1 − w) is 1 also where S = 0
            else:
                mass = rows[n].excess(proposals[n], w)
                chance = mass / (mass + 1 - w)
            if self._rng.random() < chance:
                return n
        return 0


class Coupled(_TokenByToken):
    """Gumbel coupling (Daliri, Musco, Suresh 2408.07978): the text for a seed is the same whatever drafts.

    At each position the target takes y = argmax(log p + g), with noise g that only seed, branch, position and
    token determine, and a draft token is kept while it is y. A drafter that draws with the same noise is
    right with probability (1 − TV)/(1 + TV) at least, where TV is the total variation distance of p and q.
    """

    name = "coupled"
    lossless = True

    def __init__(self, seed: int, branch: int = 0) -> None:
        self._noise = GumbelNoise(seed, branch)

    def draw(self, distribution: Distribution, position: int) -> int:
        """Draw from `distribution` with the noise of `position`: the same call gives the same token."""
        return self._noise.choose(distribution, position)

    def _replacement(self, p: Distribution, q: Proposal, token: int, position: int) -> int | None:
        own = self.draw(p, position)
        return None if own == token else own


class Typical(Exact):
    """Typical acceptance (Medusa 2401.10774, section 3.2), lossy: accept d iff p(d) > min(ε, δ·exp(−H(p))).

    A rejected token is replaced by the target's own sample. Of several children the first that passes is kept.
    """

    name = "typical"
    lossless = False

    def __init__(self, rng: np.random.Generator, epsilon: float = 0.09, delta: float = 0.3) -> None:
        super().__init__(rng)
        self._epsilon = epsilon
        self._delta = delta

    def _passes(self, p: Distribution, token: int) -> bool:
        likelihood = p.prob(token)
        return likelihood > self._epsilon or likelihood > self._delta * math.exp(-p.entropy())

    def _replacement(self, p: Distribution, q: Proposal, token: int, position: int) -> int | None:
        return None if self._passes(p, token) else self.draw(p, position)

    def _choose(self, p: Distribution, proposed: Sequence[int], position: int) -> tuple[int, bool]:
        """Take the first child that passes; else the target's own sample, which counts as a correction."""
        kept = next((token for token in proposed if self._passes(p, token)), None)
        return (self.draw(p, position), False) if kept is None else (kept, True)


def acceptance_rule(mode: AcceptanceMode, seed: int | None, branch: int = 0) -> AcceptanceRule:
    """Return the rule of that name; a `seed` of None takes one from the operating system.

    `branch` tells answers to the same conversation apart. Raises ValueError when either is negative.
    """
    if branch < 0 or (seed is not None and seed < 0):
        raise ValueError(f"Seed and branch must be at least 0, not {seed} and {branch}.")
    if seed is None:
        seed = secrets.randbits(64)
    if mode is AcceptanceMode.COUPLED:
        return Coupled(seed, branch)
    rng = np.random.default_rng((seed, branch))
    if mode is AcceptanceMode.BLOCK:
        return Block(rng)
    return Typical(rng) if mode is AcceptanceMode.TYPICAL else Exact(rng)


def _parts(draft: Draft) -> tuple[tuple[int, ...], Sequence[Proposal]]:
    """Return the draft's tokens as plain ints, and what each was drawn from."""
    ids = tuple(map(int, draft.ids))
    if draft.distributions is None:
        return ids, ids
    if len(draft.distributions) != len(ids):
        raise ValueError(f"A draft of {len(ids)} tokens came with {len(draft.distributions)} distributions.")
    return ids, draft.distributions


def _drawn_with(q: Proposal, token: int) -> float:
    """Return the probability of `token` under its proposal. Raises ValueError when that is 0."""
    likelihood = 1.0 if isinstance(q, int) else q.prob(token)
    if likelihood == 0:
        raise ValueError(f"Draft token {token} has probability 0 in the distribution it is said to come from.")
    return likelihood
