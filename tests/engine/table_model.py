"""A model that is a table: logits depend on the last two tokens. It drives the real loop and drafter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 12
END = 0


class Broken(Exception):
    """Raised by a pass that was told to fail."""


class TableModel:
    """Both `Target` and `DraftContext`. It refuses what llama.cpp would abort on, and remembers its mistakes."""

    def __init__(self, n_ctx: int, *, seed: int = 0, noise: float = 0.0, end_bias: float = -2.0) -> None:
        self.n_ctx = n_ctx
        self.tokens: list[int] = []
        self.passes = 0
        self.fail_at: int | None = None
        self._seed = seed
        self._noise = noise
        self._end_bias = end_bias
        self._rows: dict[tuple[int, int], NDArray[np.float32]] = {}
        self._tree: list[tuple[int, int]] | None = None
        """Token and parent of each row of a tree that was read and not yet kept or dropped."""
        self.tree_passes = 0

    def row(self, before: int, last: int) -> NDArray[np.float32]:
        """Logits after the two tokens."""
        key = (before, last)
        if key not in self._rows:
            logits = np.random.default_rng([self._seed, before + 1, last + 1]).normal(0, 2, VOCABULARY)
            if self._noise:
                logits += np.random.default_rng([7, before + 1, last + 1]).normal(0, self._noise, VOCABULARY)
            logits[END] += self._end_bias
            self._rows[key] = logits.astype(np.float32)
        return self._rows[key]

    def decode(self, tokens: Sequence[int], *, outputs: int | None = None) -> NDArray[np.float32]:
        assert tokens, "an empty pass"
        assert len(self.tokens) + len(tokens) <= self.n_ctx, "the context overflowed"
        assert self._tree is None, "a tree lies in the cache"
        self.passes += 1
        if self.passes == self.fail_at:
            raise Broken
        rows = []
        for token in tokens:
            self.tokens.append(token)
            rows.append(self.row(self.tokens[-2] if len(self.tokens) > 1 else -1, token))
        return np.array(rows[-(len(rows) if outputs is None else outputs) :])

    def decode_tree(self, tokens: Sequence[int], parents: Sequence[int]) -> NDArray[np.float32]:
        assert tokens, "an empty pass"
        assert len(tokens) == len(parents), "not one parent a row"
        assert len(self.tokens) + len(tokens) <= self.n_ctx, "the context overflowed"
        assert self._tree is None, "a tree lies in the cache"
        assert all(-1 <= parent < row for row, parent in enumerate(parents)), "no tree"
        self.passes += 1
        self.tree_passes += 1
        if self.passes == self.fail_at:
            raise Broken
        self._tree = list(zip(tokens, parents, strict=True))
        held = self.tokens[-1] if self.tokens else -1
        return np.array([self.row(held if p < 0 else tokens[p], token) for token, p in self._tree])

    def keep_path(self, path: Sequence[int]) -> bool:
        tree, self._tree = self._tree or [], None
        for parent, row in zip([-1, *path], path, strict=False):
            assert tree[row][1] == parent, "no path of the tree"
            self.tokens.append(tree[row][0])
        return True

    def prefill(self, tokens: Sequence[int], *, cancelled: Callable[[], bool] = lambda: False) -> None:
        self.tokens.extend(tokens)
        assert len(self.tokens) <= self.n_ctx

    def truncate(self, length: int) -> bool:
        assert self._tree is None, "a tree lies in the cache"
        del self.tokens[length:]
        return True

    def clear(self) -> None:
        self._tree = None
        self.tokens.clear()

    def can_keep(self, length: int) -> bool:
        return True

    def close(self) -> None:
        pass
