"""Several continuations of the held tokens in one pass: a tree of rows, one sequence id a leaf.

A row sees the cells that carry its (first) sequence id. Every held cell carries all ids, so that no prompt is ever
copied from one sequence to another; a row of a tree carries the ids of the leaves below it.

Rows of the first path, 0, 1, 2, …, lie in the cells that plain reading would use. A path beside it leaves gaps, so that
sums of attention run in another order there: equal to plain reading within rounding, not to the last bit.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from specchat.llama.errors import LlamaError
from specchat.llama.library import library
from specchat.llama.model import Model


def can_branch(model: Model) -> bool:
    """Whether contexts of `model` can hold trees: not with a running state, nor where a sliding window frees cells.

    llama.cpp reuses a cell that left the window only when a single sequence holds it.
    """
    return not model.recurrent and model.n_swa <= 0


def sequence_sets(parents: Sequence[int], sequences: int) -> list[list[int]]:
    """The sequence ids of every row, ascending: those of the leaves below it.

    `parents[i]` is the row that row i follows, −1 for the held tokens. Ids beyond the leaves go to the first leaf:
    drafters put their best guess first, and what already carries all ids needs no copy. Raises LlamaError for
    parents that make no tree and for more leaves than `sequences`.
    """
    for row, parent in enumerate(parents):
        if not -1 <= parent < row:
            raise LlamaError(f"Row {row} of a tree can't follow row {parent}: parents come first.")
    inner = set(parents)
    leaves = [row for row in range(len(parents)) if row not in inner]
    if len(leaves) > sequences:
        raise LlamaError(f"A tree of {len(leaves)} leaves was asked for, of at most {sequences}.")
    sets: list[set[int]] = [set() for _ in parents]
    for sequence in range(sequences):
        row = leaves[sequence if sequence < len(leaves) else 0]
        while row >= 0:
            sets[row].add(sequence)
            row = parents[row]
    return [sorted(ids) for ids in sets]


class TreeRows:
    """The rows of the last tree pass, and what of them stays.

    `struct` is the `llama_batch` of the pass, at most `capacity` rows.
    """

    def __init__(self, memory: Any, sequences: int, capacity: int) -> None:
        self._api = library().api
        self._memory = memory
        self._sequences = sequences
        self._tokens: list[int] = []
        self._parents: list[int] = []
        self._sets: list[list[int]] = []
        self._columns = {
            name: np.zeros(capacity, dtype=kind)
            for name, kind in (("token", "i4"), ("pos", "i4"), ("n_seq_id", "i4"), ("logits", "i1"))
        }
        self._ids = np.zeros((capacity, sequences), dtype=np.int32)
        pointer = ctypes.POINTER(ctypes.c_int32)
        self._id_rows = (pointer * capacity)(*[row.ctypes.data_as(pointer) for row in self._ids])
        self.struct: Any = self._api.llama_batch()
        for name in ("token", "pos", "n_seq_id"):
            setattr(self.struct, name, self._columns[name].ctypes.data_as(pointer))
        self.struct.seq_id = ctypes.cast(self._id_rows, ctypes.POINTER(pointer))
        self.struct.logits = self._columns["logits"].ctypes.data_as(ctypes.POINTER(ctypes.c_int8))
        self._columns["logits"][:] = 1

    @property
    def pending(self) -> bool:
        """Whether rows of a pass lie in the cache, of which none is yet kept or dropped."""
        return bool(self._tokens)

    def fill(self, tokens: Sequence[int], parents: Sequence[int], start: int) -> None:
        """Hold `tokens` for a pass over a tree whose roots stand at position `start`. Raises as `sequence_sets`."""
        if len(parents) != len(tokens):
            raise LlamaError(f"A tree of {len(tokens)} tokens came with {len(parents)} parents.")
        sets = sequence_sets(parents, self._sequences)
        columns, positions = self._columns, self._columns["pos"]
        for row, (token, parent, ids) in enumerate(zip(tokens, parents, sets, strict=True)):
            columns["token"][row] = token
            positions[row] = start if parent < 0 else positions[parent] + 1
            columns["n_seq_id"][row] = len(ids)
            self._ids[row, : len(ids)] = ids
        self.struct.n_tokens = len(tokens)
        self._tokens, self._parents, self._sets = list(tokens), list(parents), sets

    def forget(self) -> None:
        """Hold no rows: the pass failed, or the cache was emptied."""
        self._tokens, self._parents, self._sets = [], [], []

    def keep(self, path: Sequence[int], start: int) -> list[int]:
        """Keep the rows `path`, each the parent of the next, for all sequences; drop the others. The tokens kept.

        Raises LlamaError when `path` is none of the tree's, with nothing changed.
        """
        for parent, row in zip([-1, *path], path, strict=False):
            if not 0 <= row < len(self._tokens) or self._parents[row] != parent:
                raise LlamaError(f"Rows {list(path)} are no path of the tree.")
        rm, end = self._api.llama_memory_seq_rm, start + len(path)
        rm(self._memory, -1, end, -1)
        for sequence in range(self._sequences if path else 0):
            # Sets shrink down the tree: a sequence left the path once and for all.
            left = next((i for i, row in enumerate(path) if sequence not in self._sets[row]), None)
            if left is not None:
                rm(self._memory, sequence, start + left, end)
                self._api.llama_memory_seq_cp(self._memory, self._sets[path[-1]][0], sequence, start + left, end)
        kept = [self._tokens[row] for row in path]
        self.forget()
        return kept
