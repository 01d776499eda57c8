"""How often a draft says what the target would have said, and what that is worth on this machine.

The yardstick is the target's own greedy text, read teacher-forced in one pass. Under greedy decoding a token is tested
only after the drafted ones before it were accepted, that is, were the target's own: so the matches along that text
are exactly what a draft of any length would meet.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.prefix import keep_common_prefix
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.errors import LlamaError
from specchat.speculation.theory import predicted_tokens

Matches = NDArray[np.bool_]

ROWS = 64
"""Most rows of logits asked for at once; a context that reads `Passage`s needs as many."""


class CalibrationCancelled(LlamaError):
    """The user stopped a calibration; nothing of it is kept."""


def check(cancelled: Callable[[], bool]) -> None:
    """Raise CalibrationCancelled once `cancelled()` says so."""
    if cancelled():
        raise CalibrationCancelled("Stopped: nothing was kept of the calibration.")


@dataclass(frozen=True, slots=True)
class Passage:
    """A prompt and the target's greedy answer to it, as token ids; an end token is part of the answer."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def reading_context(n_ctx: int, threads: int) -> ContextParams:
    """Sizes of a context that can read passages of at most `n_ctx` tokens."""
    return ContextParams(n_ctx, n_outputs_max=ROWS, threads=threads, n_batch=max(ROWS, min(n_ctx, 512)))


def greedy_passages(
    context: Context, prompts: Sequence[Sequence[int]], length: int, cancelled: Callable[[], bool]
) -> Iterator[Passage]:
    """The target's greedy answers of at most `length` tokens, one after the other.

    Raises CalibrationCancelled or PrefillCancelled, and what `Context.decode` raises.
    """
    is_end = context.model.vocab.is_end_of_generation
    for prompt in prompts:
        context.clear()
        context.prefill(prompt[:-1], cancelled=cancelled)
        answer = [prompt[-1]]
        while len(answer) <= length and not (len(answer) > 1 and is_end(answer[-1])):
            check(cancelled)
            answer.append(int(context.decode(answer[-1:])[0].argmax()))
        yield Passage(tuple(prompt), tuple(answer[1:]))


def matches(context: Context, passage: Passage, cancelled: Callable[[], bool] = lambda: False) -> Matches:
    """Where the model of `context` would have said the same; shape [answer].

    Raises CalibrationCancelled between passes of ROWS rows or PrefillCancelled, and what `Context.decode` raises.
    """
    text = list(passage.prompt + passage.answer[:-1])
    # Chat prompts begin alike: what the last passage left of this one need not be read again.
    start = keep_common_prefix(context, text, limit=len(passage.prompt) - 1)
    choices: list[NDArray[np.intp]] = []
    for first in range(len(passage.prompt), len(text) + 1, ROWS):
        check(cancelled)
        end = min(first + ROWS - 1, len(text))
        outputs = end - first + 1
        if end - start > context.n_batch:
            context.prefill(text[start : end - outputs], cancelled=cancelled)
            start = end - outputs
        choices.append(context.decode(text[start:end], outputs=outputs).argmax(axis=1))
        start = end
    found: Matches = np.concatenate(choices) == np.asarray(passage.answer)
    return found


def rates_by_position(passages: Sequence[Matches], depth: int) -> list[float]:
    """Acceptance rate of draft token 1 … `depth`, given that the ones before it were accepted.

    Every place in the text counts as the start of a draft; a rate that was never tested is 0.
    """
    tested, accepted = np.zeros(depth), np.zeros(depth)
    for found in passages:
        alive = np.ones(len(found), dtype=np.bool_)
        for i in range(min(depth, len(found))):
            # alive[t]: a draft that starts at t reaches its token i with all before it accepted.
            alive = alive[: len(found) - i]
            tested[i] += alive.sum()
            alive = alive & found[i:]
            accepted[i] += alive.sum()
    return [float(a / n) if n else 0.0 for a, n in zip(accepted, tested, strict=True)]


def pass_costs(
    context: Context,
    sizes: Sequence[int],
    prefix: Sequence[int],
    *,
    repeats: int = 5,
    cancelled: Callable[[], bool] = lambda: False,
) -> dict[int, float]:
    """Median seconds of a forward pass over n tokens after `prefix`, for each n of `sizes`.

    Sizes take turns, so that a busy moment of the machine falls on all of them. Raises CalibrationCancelled or
    PrefillCancelled, and what `Context.decode` raises.
    """
    context.clear()
    context.prefill(prefix, cancelled=cancelled)
    times: dict[int, list[float]] = {n: [] for n in sizes}
    for _ in range(repeats):
        for n in sizes:
            check(cancelled)
            started = time.perf_counter()
            context.decode([prefix[-1]] * n)
            times[n].append(time.perf_counter() - started)
            context.truncate(len(prefix))
    return {n: statistics.median(taken) for n, taken in times.items()}


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a draft is predicted to bring at its best depth."""

    speedup: float
    """Over plain decoding; below 1 drafting costs more than it brings."""
    depth: int
    """Draft tokens a step, 1 or more."""


def predict(rates: Sequence[float], target_s: Mapping[int, float], draft_s: float) -> Prediction:
    """The best of E[τ_k]·T(1) / (T(k+1) + k·T_draft) over the depths k that `rates` and `target_s` cover.

    After Leviathan et al. (2211.17192, theorem 3.8), with a rate for each position and measured costs: `target_s`
    holds the seconds T(n) of a pass over n tokens, `draft_s` those of one draft token.
    """
    predictions = [
        Prediction(predicted_tokens(rates[:k]) * target_s[1] / (target_s[k + 1] + k * draft_s), k)
        for k in range(1, len(rates) + 1)
        if k + 1 in target_s
    ]
    return max(predictions, key=lambda prediction: prediction.speedup)
