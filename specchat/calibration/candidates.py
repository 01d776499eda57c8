"""Candidates of the layer-skip search: cut, loaded, read and thrown away.

A candidate is measured as the very file that would draft, on the target's own greedy text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from specchat.calibration.agreement import (
    Matches,
    Passage,
    Prediction,
    check,
    greedy_passages,
    matches,
    pass_costs,
    predict,
    rates_by_position,
    reading_context,
)
from specchat.drafters.layer_skip import FEWEST_LAYERS
from specchat.llama.context import Context
from specchat.llama.errors import LlamaError
from specchat.llama.model import Model
from specchat.llama.surgery import rewrite

Progress = Callable[[int, int, str], None]
"""Hears (candidates measured, candidates to measure as far as known, what is being done)."""

LayerSet = tuple[int, ...]
"""Layers of the target to drop, ascending."""

_MAX_DEPTH = 8
_COST_PREFIX = 128
_LONGEST_LIST = 8


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What every candidate is held against."""

    n_layer: int
    passages: tuple[Passage, ...]
    target_s: dict[int, float]
    """Seconds of a target pass over n tokens."""


def measure_target(
    target: Path,
    prompts: Sequence[Sequence[int]],
    answer_tokens: int,
    threads: int,
    gpu_layers: int,
    cancelled: Callable[[], bool],
) -> Yardstick:
    """The target's own answers to `prompts` and its costs; the target is closed again afterwards.

    Raises LlamaError for a model that can't be calibrated, CalibrationCancelled and PrefillCancelled.
    """
    n_ctx = max(map(len, prompts)) + max(answer_tokens, _COST_PREFIX + _MAX_DEPTH + 1)
    with Model(target, gpu_layers=gpu_layers) as model:
        if model.recurrent:
            raise LlamaError(
                f"{model.name} keeps a running state that can't be rolled back, so nothing is drafted for it and there "
                "are no layers to search. Use --method none."
            )
        if model.n_layer < FEWEST_LAYERS:
            raise LlamaError(f"{model.name} has {model.n_layer} layers, so there is no middle layer to skip.")
        with Context(model, reading_context(n_ctx, threads)) as context:
            passages = tuple(greedy_passages(context, prompts, answer_tokens, cancelled))
            costs = pass_costs(context, range(1, _MAX_DEPTH + 2), _cost_prefix(passages), cancelled=cancelled)
        return Yardstick(model.n_layer, passages, costs)


def _cost_prefix(passages: Sequence[Passage]) -> list[int]:
    """Real tokens before the passes that are timed: as many as an answer soon has behind it."""
    text = [token for passage in passages for token in passage.prompt + passage.answer]
    return (text * _COST_PREFIX)[:_COST_PREFIX]


class CandidateBench:
    """Cuts candidates and measures them, each on no more passages than asked for and none twice."""

    def __init__(
        self,
        target: Path,
        scratch: Path,
        yardstick: Yardstick,
        threads: int,
        gpu_layers: int,
        progress: Progress,
        cancelled: Callable[[], bool],
    ) -> None:
        self.yardstick = yardstick
        self._target = target
        self._scratch = scratch
        self._threads = threads
        self._gpu_layers = gpu_layers
        self._progress = progress
        self._cancelled = cancelled
        self._n_ctx = max(len(p.prompt) + len(p.answer) for p in yardstick.passages) + _COST_PREFIX
        self._read: dict[LayerSet, list[Matches]] = {}
        self._done = 0
        self.planned = 0
        self.overhead_s = self.passage_s = 0.0
        """Seconds of the last candidate measured: to cut and load it, and to read one passage."""
        self._layer_s = self._measure_layer_cost()

    @property
    def measured(self) -> list[LayerSet]:
        """Every candidate so far."""
        return list(self._read)

    @contextmanager
    def _draft(self, drop: LayerSet) -> Iterator[Context]:
        check(self._cancelled)
        path = self._scratch / "candidate.gguf"
        try:
            rewrite(self._target, path, drop=drop)
            check(self._cancelled)
            with (
                Model(path, gpu_layers=self._gpu_layers) as model,
                Context(model, reading_context(self._n_ctx, self._threads)) as context,
            ):
                yield context
        finally:
            path.unlink(missing_ok=True)

    def _measure_layer_cost(self) -> float:
        """Seconds that one layer adds to a pass over one token: the line through the target and half of it."""
        n_layer, whole_s = self.yardstick.n_layer, self.yardstick.target_s[1]
        half = tuple(range(1, n_layer - 1))[: n_layer // 2]
        with self._draft(half) as context:
            prefix = _cost_prefix(self.yardstick.passages)
            half_s = pass_costs(context, [1], prefix, repeats=9, cancelled=self._cancelled)[1]
        slope = (whole_s - half_s) / len(half)
        # A layer costs something and no more than its share of the pass, whatever a busy machine says.
        return min(max(slope, 0.1 * whole_s / n_layer), whole_s / n_layer)

    def draft_s(self, drop: LayerSet) -> float:
        """Seconds of one draft token without the layers `drop`."""
        return self.yardstick.target_s[1] - len(drop) * self._layer_s

    def read(self, drop: LayerSet, count: int) -> list[Matches]:
        """Where the draft without `drop` agrees with the target, on each of the first `count` passages."""
        found = self._read.get(drop, [])
        if len(found) < count:
            self._done += 1
            self._progress(self._done, max(self._done, self.planned), f"without {_spelled(drop)}")
            started = time.perf_counter()
            wanted = self.yardstick.passages[len(found) : count]
            with self._draft(drop) as context:
                loaded = time.perf_counter()
                # Only complete readings are kept: a set is compared on the same text as the others.
                found = found + [matches(context, passage, self._cancelled) for passage in wanted]
            self.passage_s = (time.perf_counter() - loaded) / len(wanted)
            self.overhead_s = loaded - started
            self._read[drop] = found
        return found[:count]

    def agreement(self, drop: LayerSet, count: int) -> float:
        """Share of the first `count` passages' tokens on which the draft without `drop` agrees."""
        return float(np.concatenate(self.read(drop, count)).mean())

    def predict(self, drop: LayerSet, count: int) -> Prediction:
        """What the draft without `drop` is worth, by its agreement on the first `count` passages."""
        rates = rates_by_position(self.read(drop, count), _MAX_DEPTH)
        return predict(rates, self.yardstick.target_s, self.draft_s(drop))


def _spelled(drop: LayerSet) -> str:
    if len(drop) == 1:
        return f"layer {drop[0]}"
    return f"layers {', '.join(map(str, drop))}" if len(drop) <= _LONGEST_LIST else f"{len(drop)} layers"
