"""After which layer to exit, and a head fitted to that layer.

A ridge regression maps the RMS-normalised state after layer E to the final normalised state, on text that the model
reads and writes; folded into the output matrix it costs a draft nothing. It is the affine "tuned lens" (Belrose et
al. 2303.08112, section 2) without its training loop.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from specchat.calibration.agreement import Passage, check, greedy_passages, pass_costs, predict, rates_by_position
from specchat.calibration.exit_states import ROWS_A_PASS, Fit, StateReader
from specchat.calibration.text import documentation
from specchat.drafters.early_exit import (
    frequent_tokens,
    head_directory,
    record_path,
    require_cache,
    require_same_logits,
)
from specchat.drafters.kept import content_digest, write_json
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.llama.head import Head, OutputEnd, cut_head, write_head
from specchat.llama.model import ALL_LAYERS, Model
from specchat.llama.taps import PartialPasses, States
from specchat.llama.threads import usable_threads

Progress = Callable[[int, int, str], None]

_DEPTHS_OF_EXITS: Final = (0.5, 2 / 3, 0.8, 0.9)
_HELD_OUT: Final = 4
"""Every fourth prompt is kept from the fit, to measure on."""
_CONTEXT: Final = 1024
_SIZES: Final = (1, 2, 3, 4, 5, 6, 8)
_CHAIN: Final = 3
_REPEATS: Final = 5
_BLOCK: Final = 4096
_Q8_0, _F16 = 8, 1


@dataclass(frozen=True, slots=True)
class ExitMeasure:
    """What leaving after `layer` is worth here, greedy and on held-out text."""

    layer: int
    alpha_before: float
    """Acceptance rate with the plain head."""
    alpha_after: float
    """Acceptance rate with the fitted head."""
    draft_s: float
    """Seconds of one draft token: the layers, then the head."""
    speedup: float
    """Predicted, over plain decoding; below 1 drafting costs more than it brings."""
    depth: int
    """The draft length that the prediction is for."""


@dataclass(frozen=True, slots=True)
class EarlyExitCalibration:
    """What was found, and where the fitted head of the best exit is kept."""

    exit_layer: int
    head: Path
    exits: tuple[ExitMeasure, ...]
    step_s: Mapping[int, float]
    """Seconds of the target's pass over n tokens."""
    extra_bytes: int
    """Memory that the method takes beyond the target's."""
    fitted_tokens: int
    held_out_tokens: int


@dataclass(slots=True)
class _Readings:
    """What was read of the target."""

    fits: list[Fit]
    counts: NDArray[np.int64]
    fitted_tokens: int
    held_out: list[Passage]
    held_out_states: list[list[States]]
    """For each held-out passage and exit: the normalised states [answer, width] that its tokens are drawn from."""


def calibrate_early_exit(
    target: Path,
    prompts: Sequence[Sequence[int]],
    *,
    exits: Sequence[int] = (),
    answer_tokens: int = 128,
    text_tokens: int = 12_000,
    threads: int | None = None,
    gpu_layers: int = ALL_LAYERS,
    progress: Progress = lambda _done, _total, _phrase: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> EarlyExitCalibration:
    """Fit a head to each of `exits` (default: four between half and all of the layers), and keep the fastest.

    `prompts` are laid out as in the chat, as token ids: the target answers each with up to `answer_tokens` tokens,
    and is measured on every fourth; besides, `text_tokens` of documentation are read. Raises CalibrationCancelled or
    PrefillCancelled, EarlyExitUnavailable, HeadNotCuttable, TapMissing, what `Model` and `Context` raise, and OSError
    where the cache can't be written.
    """
    if len(prompts) < _HELD_OUT:
        raise LlamaError(f"A calibration needs at least {_HELD_OUT} prompts, not {len(prompts)}.")
    threads = threads or usable_threads()
    end = OutputEnd(target)
    with Model(target, gpu_layers=gpu_layers) as model:
        require_cache(model)
        layers = sorted(set(exits or (max(1, round(model.n_layer * part)) for part in _DEPTHS_OF_EXITS)))
        params = ContextParams(
            _CONTEXT, ROWS_A_PASS, threads, n_batch=ROWS_A_PASS, n_ubatch=ROWS_A_PASS, layer_tap=True
        )
        with Context(model, params) as context:
            return _Calibrator(end, context, layers, gpu_layers, progress, cancelled).run(
                prompts, answer_tokens, text_tokens
            )


class _Calibrator:
    """One calibration, step by step."""

    def __init__(
        self,
        end: OutputEnd,
        context: Context,
        layers: Sequence[int],
        gpu_layers: int,
        progress: Progress,
        cancelled: Callable[[], bool],
    ) -> None:
        self._end = end
        self._context = context
        self._model = context.model
        self._layers = layers
        self._gpu_layers = gpu_layers
        self._progress = progress
        self._cancelled = cancelled
        self._passes = PartialPasses(context)
        self._reader = StateReader(self._passes, layers, end.epsilon, cancelled)
        self._ids: NDArray[np.int64] | None = None
        """The tokens that the heads are for."""

    def run(self, prompts: Sequence[Sequence[int]], answer_tokens: int, text_tokens: int) -> EarlyExitCalibration:
        with tempfile.TemporaryDirectory(prefix="specchat-head-") as scratch:
            plain = Path(scratch) / "head.gguf"
            cut_head(self._end, plain, frequent_tokens(self._model.vocab))
            with self._loaded(plain) as head:
                require_same_logits(self._context, head)
                readings = self._read(prompts, answer_tokens, text_tokens)
                self._ids = frequent_tokens(self._model.vocab, readings.counts)
                self._context.clear()
                self._progress(0, 1, "measuring what passes cost")
                prefix = (readings.held_out[0].prompt + readings.held_out[0].answer)[:ROWS_A_PASS]
                step_s = pass_costs(self._context, _SIZES, prefix, repeats=_REPEATS, cancelled=self._cancelled)
                draft_s = self._draft_costs(head, prefix)
        return self._conclude(readings, step_s, draft_s)

    def _loaded(self, head: Path) -> Head:
        return Head(head, threads=self._context.params.threads, gpu_layers=self._gpu_layers)

    def _read(self, prompts: Sequence[Sequence[int]], answer_tokens: int, text_tokens: int) -> _Readings:
        passages: list[Passage] = []
        for passage in greedy_passages(self._context, prompts, answer_tokens, self._cancelled):
            passages.append(passage)
            self._progress(len(passages), len(prompts), "writing the target's own answers")
        self._context.clear()
        width, size = self._model.n_embd, self._model.vocab.size
        readings = _Readings([Fit(layer, width) for layer in self._layers], np.zeros(size, np.int64), 0, [], [])
        texts = [[*p.prompt, *p.answer] for i, p in enumerate(passages) if i % _HELD_OUT]
        # The model's own words count once more than what it was given to read.
        readings.counts += np.bincount([token for text in texts for token in text], minlength=size)
        texts += self._documents(text_tokens)
        for done, text in enumerate(texts, 1):
            self._fit(readings, text)
            self._progress(done, len(texts), "reading text")
        for passage in passages[::_HELD_OUT]:
            if passage.answer:
                *states, _final = self._reader.states([*passage.prompt, *passage.answer[:-1]])
                readings.held_out.append(passage)
                readings.held_out_states.append([rows[len(passage.prompt) - 1 :] for rows in states])
        return readings

    def _documents(self, tokens: int) -> list[list[int]]:
        vocab, texts, left = self._model.vocab, list[list[int]](), tokens
        for page in documentation(tokens * 8):
            ids = vocab.tokenize(page, add_special=False, parse_special=False)[: min(left, _CONTEXT)]
            if ids:
                texts.append(ids)
            left -= len(ids)
        return texts

    def _fit(self, readings: _Readings, text: Sequence[int]) -> None:
        *states, final = self._reader.states(text)
        for fit, inputs in zip(readings.fits, states, strict=True):
            fit.add(inputs, final)
        readings.counts += np.bincount(text, minlength=len(readings.counts))
        readings.fitted_tokens += len(text)

    def _draft_costs(self, head: Head, prefix: Sequence[int]) -> list[float]:
        """Median seconds of a draft token at each exit, in chains between whole passes as in the loop.

        Exits take turns, so that a busy moment of the machine falls on all of them.
        """
        times: dict[int, list[float]] = {layer: [] for layer in self._layers}
        for layer in list(self._layers) * _REPEATS:
            check(self._cancelled)
            self._context.decode(prefix[:_CHAIN])
            self._context.truncate(len(prefix))
            started = time.perf_counter()
            with self._passes:
                for token in prefix[:_CHAIN]:
                    head.logits(self._passes.run([token], layer)[-1]).argmax()
            times[layer].append((time.perf_counter() - started) / _CHAIN)
        return [statistics.median(taken) for taken in times.values()]

    def _conclude(
        self, readings: _Readings, step_s: Mapping[int, float], draft_s: Sequence[float]
    ) -> EarlyExitCalibration:
        exits, maps = [], []
        for i, (fit, cost) in enumerate(zip(readings.fits, draft_s, strict=True)):
            self._progress(i, len(draft_s), "measuring agreement")
            check(self._cancelled)
            states = [of_exit[i] for of_exit in readings.held_out_states]
            maps.append(fit.solve())
            before = self._rates(readings.held_out, [rows * self._end.norm for rows in states])
            after = self._rates(readings.held_out, [rows @ maps[i] for rows in states])
            best = predict(after, step_s, cost)
            exits.append(ExitMeasure(fit.layer, before[0], after[0], cost, best.speedup, best.depth))
        chosen = max(range(len(exits)), key=lambda i: exits[i].speedup)
        path, n_bytes = self._keep(exits[chosen].layer, maps[chosen])
        held_out = sum(len(passage.answer) for passage in readings.held_out)
        result = EarlyExitCalibration(
            exits[chosen].layer, path, tuple(exits), step_s, n_bytes, readings.fitted_tokens, held_out
        )
        _keep_record(self._model.path, result)
        return result

    def _rates(self, passages: Sequence[Passage], states: Sequence[States]) -> list[float]:
        """Acceptance rates by position with final states as `states` says."""
        choices = np.split(self._choices(np.concatenate(states)), np.cumsum([len(rows) for rows in states])[:-1])
        found = [chosen == np.asarray(p.answer) for chosen, p in zip(choices, passages, strict=True)]
        return rates_by_position(found, max(_SIZES) - 1)

    def _choices(self, states: States) -> NDArray[np.int64]:
        """The token [n] whose row of the output matrix fits each of `states` [n, width] best."""
        ids = np.arange(self._end.n_tokens) if self._ids is None else self._ids
        best, choice = np.full(len(states), -np.inf), np.zeros(len(states), dtype=np.int64)
        for some in _blocks(ids):
            logits = states @ self._end.weights(some).T
            places = logits.argmax(axis=1)
            peaks = logits[np.arange(len(states)), places]
            choice = np.where(peaks > best, some[places], choice)
            best = np.maximum(best, peaks)
        return choice

    def _keep(self, layer: int, linear: NDArray[np.float32]) -> tuple[Path, int]:
        """Write the output matrix with the map folded in; its path and size in memory."""
        import gguf

        ids = np.arange(self._end.n_tokens) if self._ids is None else self._ids
        kind = _Q8_0 if self._end.width % 32 == 0 else _F16
        rows = [
            gguf.quantize(self._end.weights(some) @ linear.T, gguf.GGMLQuantizationType(kind)).view(np.uint8)
            for some in _blocks(ids)
        ]
        path = head_directory() / f"{content_digest(self._model.path)}-exit-{layer}.gguf"
        ones = np.ones(self._end.width, dtype=np.float32)
        write_head(path, self._end, np.concatenate(rows), kind, ones, self._ids)
        with self._loaded(path) as head:
            return path, head.size_bytes


def _blocks(ids: NDArray[np.int64]) -> Iterable[NDArray[np.int64]]:
    """Pieces of `ids` whose dequantised rows take little memory."""
    return (ids[start : start + _BLOCK] for start in range(0, len(ids), _BLOCK))


def _keep_record(target: Path, found: EarlyExitCalibration) -> None:
    """Write what the drafter reads, after the head it names; it appears whole or not at all."""
    record = asdict(found) | {"version": 1, "head": found.head.name}
    write_json(record_path(content_digest(target)), record)
