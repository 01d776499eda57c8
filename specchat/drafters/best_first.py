"""Growing a draft tree best first (EAGLE-2, Li et al. 2406.16858, section 4).

A drafter's confidence is close to the chance that its token is accepted, so the product of confidences along a path is
close to the chance that the target gets as far (section 4.1). The nodes with the largest products are the tree that is
expected to bring the most tokens in a pass of so many rows; where the drafter is sure of itself, that is a chain.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.chain import Ranking
from specchat.speculation.step import Draft

Candidates = Sequence[tuple[int, float]]
"""Tokens that may stand at one place, the likeliest first, each with its probability."""
Path = tuple[int, ...]
"""The tokens that lead to a node, from the first one drafted on."""


def best_first(
    limit: int, leaves: int, below: Callable[[Path], Candidates], is_end_of_generation: Callable[[int], bool]
) -> Draft:
    """The `limit` most promising nodes that end in at most `leaves` tokens; a chain where that is what they are.

    `below` says what may follow a path, the empty one first, and is asked only for nodes that may still have a place:
    each answer may cost a pass of the drafter. Nothing follows a token that ends the answer. The best path comes first
    in the draft: the target then reads it in the very cells where it reads a chain.
    """
    root: Path = ()
    followers: dict[Path, list[Path]] = {root: []}
    order = count()
    waiting: list[tuple[float, int, Path, bool]] = []

    def wait(path: Path, promise: float, *, chosen: bool) -> None:
        heapq.heappush(waiting, (-promise, next(order), path, chosen))

    ends = 1
    wait(root, 1.0, chosen=True)
    while waiting and len(followers) <= limit:
        negative, _, path, chosen = heapq.heappop(waiting)
        if chosen:
            for token, probability in below(path)[:leaves]:
                wait((*path, token), -negative * probability, chosen=False)
            continue
        # The first that follows a node takes over its end; each further one is an end of its own.
        beside = followers[path[:-1]]
        if beside and ends == leaves:
            continue
        ends += bool(beside)
        beside.append(path)
        followers[path] = []
        if not is_end_of_generation(path[-1]):
            wait(path, -negative, chosen=True)
    return _draft(followers, ends)


def level_tree(
    ids: Sequence[int],
    limit: int,
    leaves: int,
    rows: Sequence[Callable[[], NDArray[np.float32]]],
    sampler: Ranking,
    is_end_of_generation: Callable[[int], bool],
) -> Draft:
    """The best tree after `ids` for a drafter whose guess at one level does not depend on what it guessed before.

    `rows` give the logits [V] of each level, which are asked for at most once.
    """
    levels: list[Candidates] = []

    def below(path: Path) -> Candidates:
        level = len(path)
        if level == len(levels) < len(rows):
            # Penalties for what the path itself repeats would cost a ranking a node, and only change the order.
            levels.append(sampler.ranked(rows[level](), ids, leaves))
        return levels[level] if level < len(levels) else ()

    return best_first(limit, leaves, below, is_end_of_generation)


def _draft(followers: dict[Path, list[Path]], ends: int) -> Draft:
    """The nodes in depth-first order, those chosen first before those beside them."""
    ids: list[int] = []
    parents: list[int] = []
    open_nodes: list[tuple[Path, int]] = [(path, -1) for path in reversed(followers[()])]
    while open_nodes:
        path, parent = open_nodes.pop()
        ids.append(path[-1])
        parents.append(parent)
        open_nodes += [(follower, len(ids) - 1) for follower in reversed(followers[path])]
    return Draft(ids, parents=parents if ends > 1 else None)
