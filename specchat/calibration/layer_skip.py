"""Which layers of a target to drop, so that what is left drafts fastest for it.

After Draft & Verify (Zhang et al. 2309.08168, section 3.3) and SWIFT (Xia et al. 2410.06916), which search the same
space by measuring; the search here is greedy growth, since single drops are a poor guide to sets and a set of whole
layers is a file of its own. Each candidate is cut, loaded and made to read the target's own greedy text: what is
measured is the very file that would draft.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from specchat.calibration.agreement import ROWS, CalibrationCancelled
from specchat.calibration.candidates import CandidateBench, LayerSet, Progress, measure_target
from specchat.drafters.layer_skip import LayerSkipCalibration, default_layer_set, draft_directory, keep_calibration
from specchat.llama.errors import LlamaError, PrefillCancelled
from specchat.llama.model import ALL_LAYERS
from specchat.llama.threads import usable_threads

BUDGET_S = 240.0
_BEAM = 2
_BREADTH = 8
"""So many of the least important layers are tried as the next to drop."""
_PATIENCE = 2
"""Sizes that may pass without a better prediction before growth stops."""
_PROBES = 10
_FEWEST_PASSAGES = 2
"""Less text ranks layers by chance: a slow machine grows smaller sets instead."""
_FINALISTS = 4
_HARMLESS = 0.98
"""A layer without which so much of the text stays the same is dropped together with its like."""
_ABANDONED_S = 3600.0


def search_layer_set(
    target: Path,
    prompts: Sequence[Sequence[int]],
    *,
    known: Sequence[Sequence[int]] = (),
    answer_tokens: int = ROWS,
    budget_s: float = BUDGET_S,
    threads: int | None = None,
    gpu_layers: int = ALL_LAYERS,
    progress: Progress = lambda _done, _total, _phrase: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> LayerSkipCalibration:
    """Search the layers to drop from `target`, and keep the result for `--method layer-skip`.

    `prompts` are laid out as in the chat, as token ids; the target answers each with up to `answer_tokens` tokens.
    `known` are sets to be held against what is found. Growth stops when `budget_s` seconds are spent. Raises
    CalibrationCancelled; LlamaError for a model that can't be calibrated; OSError where the cache can't be written.
    """
    started = time.perf_counter()
    threads = threads or usable_threads()
    try:
        with _scratch(target) as scratch:
            progress(0, 1, "writing the target's own answers")
            yardstick = measure_target(target, prompts, answer_tokens, threads, gpu_layers, cancelled)
            bench = CandidateBench(target, scratch, yardstick, threads, gpu_layers, progress, cancelled)
            result = LayerSetSearch(bench, started + budget_s).run([*map(_as_set, known), default_layer_set(target)])
    except PrefillCancelled:
        raise CalibrationCancelled("Stopped: nothing was kept of the calibration.") from None
    keep_calibration(target, result)
    return result


def _as_set(layers: Sequence[int]) -> LayerSet:
    return tuple(sorted(set(layers)))


@contextmanager
def _scratch(target: Path) -> Iterator[Path]:
    """A directory for cut files, gone afterwards; what a killed search left an hour ago goes too."""
    directory = draft_directory()
    directory.mkdir(parents=True, exist_ok=True)
    for left in directory.glob(".search-*"):
        if time.time() - left.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(left, ignore_errors=True)
    needed, free = target.stat().st_size, shutil.disk_usage(directory).free
    if free < needed:
        raise LlamaError(
            f"The search writes copies of {target.name}, one at a time, and {directory} has {free:,} bytes free of the "
            f"{needed:,} it needs. Make room there, or set XDG_CACHE_HOME to a larger disk."
        )
    with tempfile.TemporaryDirectory(prefix=".search-", dir=directory) as name:
        yield Path(name)


class LayerSetSearch:
    """Single drops give an order; prefixes of it find a size; growth from the best sets finds the set."""

    def __init__(self, bench: CandidateBench, deadline: float) -> None:
        self._bench = bench
        self._deadline = deadline
        n_layer = bench.yardstick.n_layer
        # The first layer makes words of embeddings and the last one decides: neither is ever worth dropping.
        self._layers = range(1, n_layer - 1)
        self._all = len(bench.yardstick.passages)
        self._sample = self._all
        self._order: list[int] = []

    def run(self, known: Sequence[LayerSet]) -> LayerSkipCalibration:
        """The best set; `known` are measured before anything is searched, and are among the finalists."""
        self._bench.planned = len(self._layers) + _PROBES + _PATIENCE * _BEAM * _BREADTH + _FINALISTS + len(known)
        self._choose_sample()
        for drop in known:
            self._bench.read(drop, self._sample)
        self._rank_layers()
        self._probe_prefixes()
        self._grow()
        ranked = sorted(self._bench.measured, key=self._key, reverse=True)
        finalists = list(dict.fromkeys([*ranked[:_FINALISTS], *known]))
        best = max(finalists, key=lambda drop: self._key(drop, self._all))
        return self._result(best)

    def _key(self, drop: LayerSet, count: int | None = None) -> tuple[float, int]:
        """Predicted speed; of two that are worth the same the smaller draft."""
        return self._bench.predict(drop, count or self._sample).speedup, len(drop)

    def _choose_sample(self) -> None:
        """As much text a candidate as lets the planned ones be measured in four fifths of the time."""
        middle = (self._layers[len(self._layers) // 2],)
        self._bench.read(middle, self._all)
        left = 0.8 * (self._deadline - time.perf_counter()) / self._bench.planned
        affordable = int((left - self._bench.overhead_s) / self._bench.passage_s)
        self._sample = min(max(_FEWEST_PASSAGES, affordable), self._all)

    def _rank_layers(self) -> None:
        alone = {layer: self._bench.agreement((layer,), self._sample) for layer in self._layers}
        self._order = sorted(alone, key=lambda layer: alone[layer], reverse=True)
        harmless = [layer for layer in self._order if alone[layer] >= _HARMLESS]
        if harmless:
            self._bench.read(_as_set(harmless), self._sample)

    def _probe_prefixes(self) -> None:
        """Drop the 2, 4, 8 … least important at once, then halve the gaps around the best size."""
        n = len(self._order)
        sizes = [2**i for i in range(1, n.bit_length()) if 2**i < n]

        def value(size: int) -> tuple[float, int]:
            return self._key(_as_set(self._order[:size]))

        for _ in range(3):
            best = max([1, *sizes], key=value)
            below = max((s for s in [0, 1, *sizes] if s < best), default=0)
            above = min((s for s in [*sizes, n] if s > best), default=n)
            sizes = sorted({*sizes, (below + best + 1) // 2, (best + above) // 2} - {0, 1})
            if self._is_late():
                return

    def _grow(self) -> None:
        """Beam search: add one of the least important layers left, keep the best sets of that step."""
        beam = sorted(self._bench.measured, key=self._key, reverse=True)[:_BEAM]
        best, stale = self._key(beam[0]), 0
        while stale < _PATIENCE and beam and not self._is_late():
            grown = list(dict.fromkeys(_as_set([*base, layer]) for base in beam for layer in self._next_layers(base)))
            beam = sorted(self._measurable(grown), key=self._key, reverse=True)[:_BEAM]
            if beam and self._key(beam[0]) > best:
                best, stale = self._key(beam[0]), 0
                self._bench.planned += _BEAM * _BREADTH
            else:
                stale += 1

    def _next_layers(self, base: LayerSet) -> list[int]:
        return [layer for layer in self._order if layer not in base][:_BREADTH]

    def _measurable(self, candidates: Sequence[LayerSet]) -> list[LayerSet]:
        """The candidates that there is time to measure."""
        measured = []
        for drop in candidates:
            if self._is_late():
                break
            self._bench.read(drop, self._sample)
            measured.append(drop)
        return measured

    def _is_late(self) -> bool:
        """Whether the time left is needed for the finalists."""
        finish = (_FINALISTS + 2) * (self._bench.overhead_s + self._all * self._bench.passage_s)
        return time.perf_counter() + finish > self._deadline

    def _result(self, best: LayerSet) -> LayerSkipCalibration:
        prediction = self._bench.predict(best, self._all)
        yardstick = self._bench.yardstick
        return LayerSkipCalibration(
            layers=best,
            n_layer=yardstick.n_layer,
            alpha=self._bench.agreement(best, self._all),
            cost_ratio=self._bench.draft_s(best) / yardstick.target_s[1],
            depth=prediction.depth,
            speedup=prediction.speedup,
            tokens=sum(len(passage.answer) for passage in yardstick.passages),
        )
