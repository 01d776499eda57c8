"""Lookahead decoding: n-grams that the target wrote after its own guesses (Fu et al. 2402.02057, section 3).

Every pass carries guesses for the next positions. The target's rows there are one Jacobi iteration (section 2): what
they say are the next guesses, and the n-grams along the way fill a pool that drafts are taken from. Unlike in the paper
there is no branch apart for guessing: a guess is a proposal like any other, a node of one tree within a small budget
of rows, since quantised models pay for each row beyond about eight.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.method import Method
from specchat.drafters.prefix import common_prefix
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

_POOL_SIZE = 1 << 16
"""Contexts remembered, over all orders: some tens of megabytes at most."""


class NgramPool:
    """What followed the last 1 to `order` tokens: the `width` latest distinct tokens for each such context."""

    def __init__(self, order: int, width: int, size: int = _POOL_SIZE) -> None:
        self.order = order
        self._width = width
        self._size = size
        self._followers: dict[tuple[int, ...], list[int]] = {}

    def __len__(self) -> int:
        return len(self._followers)

    def add(self, context: Sequence[int], token: int) -> None:
        """Remember `token` after the last tokens of `context`, as the latest."""
        end = len(context)
        for start in range(max(0, end - self.order), end):
            key = tuple(context[start:end])
            followers = self._followers.get(key)
            if followers is None:
                self._followers[key] = [token]
            elif followers[0] != token:
                if token in followers:
                    followers.remove(token)
                followers.insert(0, token)
                del followers[self._width :]
        if len(self._followers) > self._size:
            for key in list(islice(self._followers, self._size // 4)):
                del self._followers[key]

    def after(self, context: Sequence[int]) -> list[int]:
        """Tokens that followed `context`: those after its longest known ending first, of those the latest first."""
        found: list[int] = []
        end = len(context)
        for start in range(max(0, end - self.order), end):
            followers = self._followers.get(tuple(context[start:end]), ())
            found += [token for token in followers if token not in found]
        return found[: self._width]


class _Tree:
    """A tree of proposals being grown, at most `nodes` of them and `leaves` ends."""

    def __init__(self, nodes: int, leaves: int) -> None:
        self._nodes = nodes
        self._leaves = leaves
        self._below: list[dict[int, int]] = [{}]
        self._ends = 1
        self.ids: list[int] = []
        self.parents: list[int] = []

    def child(self, node: int, token: int) -> int | None:
        """The node of `token` below `node` (−1: the last verified token), made where it is new; None: no room."""
        below = self._below[node + 1]
        if token in below:
            return below[token]
        # The first child of a node takes over its end; each further one is an end of its own.
        if len(self.ids) >= self._nodes or (below and self._ends >= self._leaves):
            return None
        self._ends += bool(below)
        self.ids.append(token)
        self.parents.append(node)
        self._below.append({})
        below[token] = len(self.ids) - 1
        return below[token]

    def draft(self) -> Draft:
        """The tree; a chain where nothing branches, which takes the target's ordinary pass."""
        return Draft(self.ids, parents=self.parents if self._ends > 1 else None)


class LookaheadDrafter:
    """Drafts from a pool of n-grams, and guesses on: at most `budget` rows a pass, the last verified token included.

    `leaves` bounds the branches of the tree, `window` how far it guesses where nothing is known, `ngram` the length of
    the n-grams, context and next token together. By default only chains are drafted: every target reads them, and to
    the last bit as it decodes plainly. The pool outlives edits and cancellations: it holds hints, and every proposal is
    verified. Guesses belong to the text they were made for.
    """

    method = Method.LOOKAHEAD

    def __init__(self, budget: int = 8, leaves: int = 1, *, window: int = 3, ngram: int = 3, width: int = 4) -> None:
        """Raises ValueError unless there is room for the last token and a proposal, and every size is positive."""
        if budget < 2 or ngram < 2 or min(leaves, window, width) < 1:
            raise ValueError(f"Lookahead with {budget} rows, {leaves} leaves, {window} guesses and {ngram}-grams.")
        self._budget = budget
        self._leaves = leaves
        self._window = window
        self._pool = NgramPool(ngram - 1, width)
        self._ids: list[int] = []
        self._guesses: list[int] = []
        self._guess_nodes: list[int] = []

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        """Agree with exactly `ids`, and read n-grams from what is new in them; nothing is drawn with the sampler."""
        new = list(ids)
        if new != self._ids:
            self._guesses = []
        shared = common_prefix(self._ids, new, limit=len(new))
        self._ids = new
        self._guess_nodes = []
        self._learn_text(shared)

    def propose(self, limit: int) -> Draft:
        """At most `limit` tokens: the pool's continuation, guesses where it knows none, its other ideas aside."""
        nodes = min(limit, self._budget - 1)
        self._guess_nodes = []
        if nodes <= 0 or not self._ids:
            return Draft()
        tree = _Tree(nodes, self._leaves)
        aside = min(2 * (self._leaves - 1), nodes // 2)
        self._grow(tree, nodes - aside)
        for token in self._pool.after(self._context())[1:]:
            self._follow(tree, token, 2)
        self._guess_nodes = self._grow(tree, nodes)
        return tree.draft()

    def _context(self) -> list[int]:
        return self._ids[-self._pool.order :]

    def _follow(self, tree: _Tree, token: int, length: int) -> None:
        """Add `token` and what the pool says follows it, a chain of up to `length` from the root."""
        context, node = self._context(), -1
        for _ in range(length):
            child = tree.child(node, token)
            if child is None:
                return
            node = child
            context.append(token)
            followers = self._pool.after(context)
            if not followers:
                return
            token = followers[0]

    def _grow(self, tree: _Tree, length: int) -> list[int]:
        """Add a chain of up to `length` tokens from the root, what the pool or else the last pass says; its nodes.

        Where neither says anything the text begins again, to the end of the window: any token will do to start from,
        since the next pass puts a better one in its place.
        """
        context, node = self._context(), -1
        grown: list[int] = []
        for level in range(length):
            words = self._pool.after(context) + self._guesses[level : level + 1]
            if not words and level >= self._window:
                break
            token = words[0] if words else self._ids[level % len(self._ids)]
            child = tree.child(node, token)
            if child is None:
                break
            node = child
            context.append(token)
            grown.append(node)
        return grown

    def observe(self, rows: NDArray[np.float32], draft: Draft, step: Step) -> None:
        """Read the target's most likely token after each row [rows, V], rejected ones included."""
        best = rows[: len(draft) + 1].argmax(axis=1).tolist()
        held = self._context()
        for row, token in enumerate(best):
            self._pool.add([*held, *draft.prefix(row)], token)
        # The guess at level n, the step's last, says what follows it at level n + 1: the first open one.
        still_ahead = self._guess_nodes[max(0, len(step.tokens) - 1) :]
        self._guesses = [best[node + 1] for node in still_ahead]

    def commit(self, step: Step) -> None:
        """Append what the step emitted."""
        held = len(self._ids)
        self._ids.extend(step.tokens)
        self._guess_nodes = []
        self._learn_text(held)

    def _learn_text(self, start: int) -> None:
        order = self._pool.order
        for end in range(max(1, start), len(self._ids)):
            self._pool.add(self._ids[max(0, end - order) : end], self._ids[end])

    def close(self) -> None:
        """Drop the pool and the text."""
        self._pool = NgramPool(self._pool.order, 1)
        self._ids, self._guesses, self._guess_nodes = [], [], []
