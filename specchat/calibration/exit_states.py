"""The states that an exit is fitted on: read layer by layer from the target, and summed for a regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.calibration.agreement import check
from specchat.llama.taps import FINAL_STATE, PartialPasses, States, layer_output

ROWS_A_PASS: Final = 128
_RIDGE: Final = 1e-3
"""The penalty, of the mean square of an input: only there for directions that the text hardly shows."""


class Fit:
    """The sums of one exit's regression; `states` [n, width] come in as they are read."""

    def __init__(self, layer: int, width: int) -> None:
        self.layer = layer
        self._gram = np.zeros((width, width))
        self._cross = np.zeros((width, width))

    def add(self, inputs: States, outputs: States) -> None:
        """Take rows [n, width] and what they are to be mapped to."""
        self._gram += inputs.T @ inputs
        self._cross += inputs.T @ outputs

    def solve(self) -> NDArray[np.float32]:
        """The map A [width, width]: a final state is about an input row times A."""
        width = len(self._gram)
        penalty = _RIDGE * np.trace(self._gram) / width
        return np.linalg.solve(self._gram + penalty * np.eye(width), self._cross).astype(np.float32)


class StateReader:
    """Reads texts with the context of `passes` and keeps nothing of them there."""

    def __init__(
        self, passes: PartialPasses, layers: Sequence[int], epsilon: float, cancelled: Callable[[], bool]
    ) -> None:
        self._passes = passes
        self._names = (*map(layer_output, layers), FINAL_STATE)
        self._epsilon = epsilon
        self._cancelled = cancelled

    def states(self, text: Sequence[int]) -> list[States]:
        """The normalised states [text, width] at each exit, then the final ones."""
        chunks = []
        with self._passes:
            for start in range(0, len(text), ROWS_A_PASS):
                check(self._cancelled)
                chunks.append(self._passes.read(text[start : start + ROWS_A_PASS], self._names))
        *states, final = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        return [self._normalised(rows) for rows in states] + [final]

    def _normalised(self, rows: States) -> States:
        mean_square = np.square(rows).mean(axis=1, keepdims=True)
        return np.asarray(rows / np.sqrt(mean_square + self._epsilon), dtype=np.float32)
