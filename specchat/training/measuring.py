"""What a trained head is worth in the engine: α by position, speed against plain decoding, and the same text."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.speculation.params import SamplingParams
from specchat.speculation.step import Step
from specchat.training.agreement import NumpyHead, features_of, met


@dataclass(frozen=True, slots=True)
class Measured:
    """Greedy answers with drafts of one length."""

    draft_tokens: int
    answers: int
    tokens: int
    same: int
    """Answers that were, token by token, those of plain decoding."""
    tested: tuple[int, ...]
    """Tokens by their place in the draft."""
    accepted: tuple[int, ...]
    predicted: tuple[float, ...]
    """α by place, as `NumpyHead` computes it at the same places of the same texts."""
    tokens_per_step: float
    plain_ms: float
    """A token, of plain decoding without reading any layer, prompt after prompt in turns with the others."""
    ms: float
    """A token."""

    @property
    def alpha(self) -> tuple[float, ...]:
        """By place, of those tested."""
        return _rates(self.accepted, self.tested)

    @property
    def step_ms(self) -> float:
        """A step: drafting, checking and rolling back."""
        return self.ms * self.tokens_per_step

    @property
    def speedup(self) -> float:
        """Over plain decoding, measured."""
        return self.plain_ms / self.ms


class _Sums:
    """Of the answers with drafts of `depth` tokens."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.tested, self.accepted, self.could_test, self.could_accept = (
            np.zeros(depth, dtype=np.int64) for _ in range(4)
        )
        self.answers = self.same = self.tokens = self.steps = self.plain_tokens = 0
        self.seconds = self.plain_s = 0.0

    def add(self, taken: _Taken, plain: _Taken, head: NumpyHead, features: NDArray[np.float32]) -> None:
        """Take an answer, the plain one beside it, and the target's features along the plain one."""
        self.answers += 1
        self.same += taken.transcript == plain.transcript
        self.tokens += taken.tokens
        self.steps += len(taken.steps)
        self.seconds += taken.seconds
        self.plain_tokens += plain.tokens
        self.plain_s += plain.seconds
        for step in taken.steps:
            self.tested[: step.tested] += 1
            self.accepted[: step.accepted] += 1
        drafts = head.drafts(plain.transcript, features, self.depth)
        # Where one answer went another way, the head is not asked about places that the other never had.
        places = zip(taken.places, taken.steps, strict=True)
        asked = [(at, step.drafted) for at, step in places if at < len(plain.transcript)]
        tested, accepted = met(drafts, plain.transcript, asked)
        self.could_test += tested
        self.could_accept += accepted

    def measured(self) -> Measured:
        """What they come to."""
        return Measured(
            draft_tokens=self.depth,
            answers=self.answers,
            tokens=self.tokens,
            same=self.same,
            tested=tuple(map(int, self.tested)),
            accepted=tuple(map(int, self.accepted)),
            predicted=_rates(self.could_accept, self.could_test),
            tokens_per_step=self.tokens / max(1, self.steps),
            plain_ms=1e3 * self.plain_s / max(1, self.plain_tokens),
            ms=1e3 * self.seconds / max(1, self.tokens),
        )


def _rates(accepted: Iterable[int], tested: Iterable[int]) -> tuple[float, ...]:
    return tuple(float(a / t) if t else 0.0 for a, t in zip(accepted, tested, strict=True))


def measure(
    target: Path,
    path: Path,
    head: NumpyHead,
    taps: Sequence[int],
    prompts: Sequence[Sequence[int]],
    *,
    depths: Sequence[int],
    most_answer: int,
    threads: int,
    stop: Callable[[], bool] = lambda: False,
) -> list[Measured]:
    """Answer `prompts` greedily, plainly and with drafts of each of `depths` tokens; at least the first prompt.

    `stop()` is asked before each further prompt. Raises what `Engine` and its answers raise.
    """
    n_ctx = max(map(len, prompts)) + most_answer + max(depths) + 1
    sums = {depth: _Sums(depth) for depth in depths}
    with ExitStack() as stack:
        costs = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def opened(draft: Path | None, method: Method, depth: int) -> Engine:
            settings = EngineSettings(target, draft, method, depth, n_ctx, threads, costs=costs)
            return stack.enter_context(closing(Engine(settings)))

        plain = opened(None, Method.NONE, 0)
        drafting = {depth: opened(path, Method.EAGLE, depth) for depth in depths}
        params = ContextParams(n_ctx, 1, threads, layer_inputs=tuple(taps))
        with Context(plain.model, params) as context:
            for number, prompt in enumerate(prompts):
                if number and stop():
                    break
                expected = _answered(plain, prompt, most_answer)
                # One pass over all of it: the states differ from those of single tokens by rounding only.
                features = features_of(context, taps, expected.transcript[:-1])
                for depth, engine in drafting.items():
                    sums[depth].add(_answered(engine, prompt, most_answer), expected, head, features)
    return [each.measured() for each in sums.values()]


@dataclass(frozen=True, slots=True)
class _Taken:
    """An answer after its first token, which no drafter has a part in."""

    transcript: list[int]
    places: list[int]
    """Tokens of prompt and answer before each step."""
    steps: list[Step]
    seconds: float

    @property
    def tokens(self) -> int:
        """Tokens that the steps brought."""
        return sum(len(step.tokens) for step in self.steps)


def _answered(engine: Engine, prompt: Sequence[int], most_answer: int) -> _Taken:
    answer = engine.answer(prompt, AnswerSettings(SamplingParams(temperature=0), max_tokens=most_answer))
    writing = iter(answer)
    first = next(writing)
    started = time.perf_counter()
    steps = list(writing)
    seconds = time.perf_counter() - started
    places = np.cumsum([len(prompt) + len(first.tokens), *(len(step.tokens) for step in steps)])[:-1]
    return _Taken(list(answer.transcript), places.tolist(), steps, seconds)
