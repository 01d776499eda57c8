"""Draft trees: several deterministic proposals for the same position, judged level by level.

Where the proposals are one-hot, testing the children of a node one after the other, each against what the target has
left (Sequoia 2402.12374, algorithm 2; SpecInfer 2305.09781, algorithm 3), accepts child c with probability p(c) and
else gives a token of p without the children. Drawing one token from p and looking for it among the children has that
same law, in one draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specchat.speculation.distribution import Distribution
from specchat.speculation.step import Draft, Step

Target = Callable[[int], Distribution]
"""The target's distribution at row i: row 0 follows the last verified token, row i + 1 follows draft token i."""

Choice = Callable[[Distribution, Sequence[int], int], tuple[int, bool]]
"""From p, the children's tokens and the position: the token that stands there, and whether a child is accepted."""


def children(draft: Draft) -> dict[int, list[int]]:
    """The children of every node that has some, by index; the last verified token is node −1.

    Raises ValueError for parents that make no tree, or when the proposals were drawn from distributions.
    """
    parents = draft.parents
    if parents is None or len(parents) != len(draft.ids):
        raise ValueError(f"A tree of {len(draft.ids)} tokens came with the parents {parents}.")
    if draft.distributions is not None:
        raise ValueError("Only deterministic proposals form a tree; this one came with distributions.")
    found: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"Token {node} of a tree can't follow token {parent}: parents come first.")
        found.setdefault(parent, []).append(node)
    return found


def walk(draft: Draft, target: Target, position: int, choose: Choice) -> Step:
    """Judge the tree `draft`, whose first level stands at absolute `position`: go down while a child is accepted.

    Of children with the same token the first is taken. Raises ValueError as `children` does.
    """
    below = children(draft)
    size = len(draft.ids)
    path: list[int] = []
    tokens: list[int] = []
    node = -1
    while True:
        nodes = below.get(node, [])
        proposed = [int(draft.ids[child]) for child in nodes]
        token, accepted = choose(target(node + 1), proposed, position + len(path))
        tokens.append(token)
        if not accepted:
            # Nothing was tested below a leaf: what follows it is a bonus.
            tested = len(path) + bool(nodes)
            return Step(tuple(tokens), len(path), tested, size, tuple(path))
        node = nodes[proposed.index(token)]
        path.append(node)
