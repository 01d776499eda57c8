"""From a target to a head and what it is worth, in a given time: answers, training, file, measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np

from specchat.heads.kinds import WeightType
from specchat.llama.model import Model
from specchat.training.agreement import Agreement, NumpyHead, agreement
from specchat.training.forward import HeadShape
from specchat.training.measuring import Measured, measure
from specchat.training.texts import Text, most_drafted
from specchat.training.weights import Tensors, first_weights, head_file, head_shape, output_rows
from specchat.training.writing import ManyTexts, written_texts

Say = Callable[[str], None]
Prompts = Sequence[Sequence[int]]

SLOTS: Final = 32
"""Texts written at once: past that a pass costs as much more as it brings."""
_PARTS: Final = {"answers": 0.48, "training": 0.40, "measuring": 0.12}
_TEMPERATURES: Final = (0.0, 0.8)
"""A chat is drawn at some temperature and a benchmark greedily: the head should know both."""
_DEPTHS: Final = (1, 2, 3, 4)
_ROWS_A_LESSON: Final = 512
_HELD_A_MINUTE, _MOST_HELD = 2, 24
"""Prompts of each set that is measured on."""
_TRAINED_SAMPLE: Final = 24


@dataclass(frozen=True, slots=True)
class Request:
    """What to train, and for how long. Prompts are token ids in the target's own chat template."""

    target: Path
    destination: Path
    trained: Prompts
    held_out: Prompts
    unlike: Prompts
    minutes: float
    threads: int
    most_tokens: int | None = None
    """Answer tokens to train on; None: as many as the time allows."""
    most_steps: int | None = None
    """Steps of training; None: as many as the time allows."""
    draft_tokens: int = 8192
    """Tokens that the head can draft."""
    answer_tokens: int = 160
    """Longest answer."""
    weight_type: WeightType = WeightType.Q8_0
    seed: int = 0


@dataclass(slots=True)
class Report:
    """What was done and found."""

    seconds: dict[str, float] = field(default_factory=dict)
    """By phase."""
    texts: int = 0
    answer_tokens: int = 0
    """That were trained on."""
    draft_tokens: int = 0
    steps: int = 0
    rows: int = 0
    """Positions learned from, each as often as it was read."""
    loss: float = 0.0
    size_bytes: int = 0
    agreements: dict[str, Agreement] = field(default_factory=dict)
    """Teacher-forced, of the written file, by set of texts."""
    measured: list[Measured] = field(default_factory=list)
    """In the engine, on prompts that were not trained on."""

    @property
    def best(self) -> Measured | None:
        """The draft length with the greatest speed-up."""
        return max(self.measured, key=lambda each: each.speedup, default=None)

    @property
    def farthest_from_predicted(self) -> float:
        """The greatest difference of a first token's α from what numpy predicts at the same places."""
        return max((abs(each.alpha[0] - each.predicted[0]) for each in self.measured), default=0.0)


@dataclass(frozen=True, slots=True)
class _Written:
    trained: list[Text]
    held_out: list[Text]
    unlike: list[Text]


def train_head(request: Request, say: Say) -> Report:
    """Train a head and write it to `request.destination`; `say` hears how it goes.

    Raises ModelUnusable for a target that it can't be done for, and what `Model`, `ManyTexts`, `Engine` and
    `HeadFile.write` raise.
    """
    # jax is an extra's, and slow to import: not before the target was looked at.
    target = Tensors(request.target)
    shape = head_shape(target)
    from specchat.training.learning import STEPS, Learner
    from specchat.training.lessons import Lessons

    started, report = time.perf_counter(), Report()
    rng = np.random.default_rng(request.seed)
    with _timed(report, "answers"):
        written = _write_texts(request, shape, rng, started, say)
    report.texts = len(written.trained)
    report.answer_tokens = sum(text.n_answer for text in written.trained)
    ids = most_drafted(written.trained, shape.n_tokens, request.draft_tokens)
    report.draft_tokens = len(ids)
    with _timed(report, "training"):
        lessons = Lessons(written.trained, target, ids, rows_a_lesson=_ROWS_A_LESSON, steps=STEPS, rng=rng)
        learner = Learner(shape, first_weights(target, shape, rng), output_rows(target, ids), lessons)
        learned = learner.run(
            _training_seconds(request, time.perf_counter() - started),
            lambda part, steps, loss: say(f"training: {part:.0%}, {steps:,} steps, loss {loss:.2f}"),
            most_steps=request.most_steps,
        )
    report.steps, report.rows, report.loss = learned.steps, learned.rows, learned.loss
    name = f"{target.header.metadata.get('general.name') or request.target.stem} EAGLE-3"
    head_file(name, shape, learned.weights, ids).write(request.destination, request.weight_type)
    report.size_bytes = request.destination.stat().st_size
    say(f"{request.destination} is written; measuring it")
    with _timed(report, "measuring"):
        _measure(request, target, shape, written, started, report)
    return report


@contextmanager
def _timed(report: Report, phase: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    report.seconds[phase] = time.perf_counter() - began


def _training_seconds(request: Request, over: float) -> float:
    """What is left of its time after `over` seconds; where writing took too long, at least half of its part."""
    total = 60 * request.minutes
    return max(total * (_PARTS["answers"] + _PARTS["training"]) - over, total * _PARTS["training"] / 2)


def _held(request: Request) -> tuple[Prompts, Prompts]:
    n = int(np.clip(request.minutes * _HELD_A_MINUTE, 4, _MOST_HELD))
    return request.held_out[:n], request.unlike[:n]


def _write_texts(request: Request, shape: HeadShape, rng: np.random.Generator, started: float, say: Say) -> _Written:
    held_out, unlike = _held(request)
    longest = max(map(len, chain(request.trained, held_out, unlike)))
    length = -(-(longest + request.answer_tokens) // 32) * 32
    end = started + 60 * request.minutes * _PARTS["answers"]
    wanted = request.most_tokens or 1 << 62
    texts: list[Text] = []

    def enough() -> bool:
        return time.perf_counter() >= end or sum(text.n_answer for text in texts) >= wanted

    with Model(request.target) as model, ManyTexts(model, shape.taps, SLOTS, length, request.threads) as context:
        # Where time is short the texts to measure on are cut, before those to learn from are.
        quarter = time.perf_counter() + 60 * request.minutes * _PARTS["answers"] / 4
        measured_on = list(
            written_texts(
                context,
                [*held_out, *unlike],
                request.answer_tokens,
                rng=rng,
                stop=lambda: time.perf_counter() >= quarter,
            )
        )
        told = time.perf_counter()
        for text in written_texts(
            context, request.trained, request.answer_tokens, temperatures=_TEMPERATURES, rng=rng, stop=enough
        ):
            texts.append(text)
            if time.perf_counter() - told > 20:
                told = time.perf_counter()
                say(f"answers: {len(texts):,} of {sum(t.n_answer for t in texts):,} tokens")
    first = {tuple(prompt) for prompt in held_out}
    split: dict[bool, list[Text]] = {True: [], False: []}
    for text in measured_on:
        split[tuple(text.tokens[: text.n_prompt].tolist()) in first].append(text)
    return _Written(texts, split[True], split[False])


def _measure(
    request: Request, target: Tensors, shape: HeadShape, written: _Written, started: float, report: Report
) -> None:
    head = NumpyHead(request.destination, target, shape)
    sets = {
        "trained": written.trained[:_TRAINED_SAMPLE],
        "held-out topics": written.held_out,
        "other questions": written.unlike,
    }
    for name, texts in sets.items():
        report.agreements[name] = agreement(head, texts)
    held_out, unlike = _held(request)
    total = 60 * request.minutes
    end = max(started + total, time.perf_counter() + total * _PARTS["measuring"] / 2)
    report.measured = measure(
        request.target,
        request.destination,
        head,
        shape.taps,
        [prompt for pair in zip(held_out, unlike, strict=False) for prompt in pair],
        depths=_DEPTHS,
        most_answer=request.answer_tokens,
        threads=request.threads,
        stop=lambda: time.perf_counter() >= end,
    )
