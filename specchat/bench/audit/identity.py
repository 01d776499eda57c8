"""The same text whatever drafts: token by token under greedy decoding, and for a seed under Gumbel coupling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from specchat.bench.audit.contestants import NOBODY, Onlooker, Unavailable, ask, contestant
from specchat.bench.entrants import Model
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.engine.answer import Answer
from specchat.engine.settings import AnswerSettings
from specchat.llama.context import Context
from specchat.speculation.distribution import warp
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.noise import GumbelNoise
from specchat.speculation.params import SamplingParams

GREEDY = SamplingParams(0.0, 0, 1, 0)
SAMPLED = SamplingParams(0.8, 0, 1, 0)
"""No truncation: where tokens are cut off a rounding error could bring a likely one back."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where a method's text left that of plain decoding."""

    prompt: int
    seed: int | None
    position: int
    """Tokens of the answer before it."""
    plain: int
    other: int
    gap: float
    """Logits between the two best choices there: a rounding error that large explains the fork."""


@dataclass(slots=True)
class Compared:
    """One method against plain decoding."""

    method: Method
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0
    forks: list[Fork] = field(default_factory=list)
    note: str = ""
    """Why nothing was drafted, in sentences, where it is known."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One answer that every method gives: a seed stands for coupled sampling, None for greedy decoding."""

    prompt: int
    text: str
    seed: int | None
    max_tokens: int

    @property
    def settings(self) -> AnswerSettings:
        """How the answer is drawn."""
        if self.seed is None:
            return AnswerSettings(GREEDY, max_tokens=self.max_tokens)
        return AnswerSettings(SAMPLED, AcceptanceMode.COUPLED, self.seed, max_tokens=self.max_tokens)


@dataclass(frozen=True, slots=True)
class _Parting:
    """A fork whose gap is not measured yet."""

    compared: Compared
    trial: Trial
    history: list[int]
    """The prompt and what both wrote."""
    position: int
    plain: int
    other: int

    def fork(self, gap: float) -> Fork:
        return Fork(self.trial.prompt, self.trial.seed, self.position, self.plain, self.other, gap)


def compare(
    model: Model, methods: Sequence[Method], trials: Sequence[Trial], onlooker: Onlooker = NOBODY
) -> tuple[list[Compared], list[Unavailable]]:
    """Every method's answers against plain decoding's; one model is open at a time, since two may not fit.

    `model` names its model. Raises what opening that for plain decoding raises, and AuditCancelled.
    """
    found, missing, partings = list[Compared](), list[Unavailable](), list[_Parting]()
    expected = _expected(model, trials, onlooker)
    for method in methods:
        with contestant(model, method) as session:
            if isinstance(session, Unavailable):
                missing.append(session)
                continue
            compared = Compared(method)
            for number, (trial, (prompt, ids)) in enumerate(zip(trials, expected, strict=True)):
                onlooker.hear(f"{method}, answer {number + 1} of {len(trials)}")
                answer = ask(session, trial.text, trial.settings, onlooker)
                partings += _compare_one(compared, trial, prompt, ids, answer)
            if not compared.drafted:
                compared.note = " ".join(session.engine.take_notes())
            found.append(compared)
    if partings:
        _measure_gaps(model, partings, onlooker)
    return found, missing


def _expected(model: Model, trials: Sequence[Trial], onlooker: Onlooker) -> list[tuple[list[int], list[int]]]:
    """Token ids of each trial's prompt and of its answer by plain decoding."""
    expected = list[tuple[list[int], list[int]]]()
    with contestant(model, Method.NONE) as plain:
        assert isinstance(plain, Session)
        for trial in trials:
            onlooker.hear(f"plain decoding, answer {len(expected) + 1} of {len(trials)}")
            answer = ask(plain, trial.text, trial.settings, onlooker)
            expected.append((answer.transcript[: answer.timings.prompt_tokens], answer.token_ids))
    return expected


def _compare_one(
    compared: Compared, trial: Trial, prompt: list[int], ids: list[int], answer: Answer
) -> Iterator[_Parting]:
    other = answer.token_ids
    compared.tokens += len(other)
    compared.drafted += answer.metrics.drafted
    compared.accepted += answer.metrics.accepted
    if other == ids:
        return
    at = next((i for i, (a, b) in enumerate(zip(ids, other, strict=False)) if a != b), min(len(ids), len(other)))
    one, two = (tokens[at] if at < len(tokens) else -1 for tokens in (ids, other))
    yield _Parting(compared, trial, [*prompt, *ids[:at]], at, one, two)


def _measure_gaps(model: Model, partings: Sequence[_Parting], onlooker: Onlooker) -> None:
    with contestant(model, Method.NONE) as plain:
        assert isinstance(plain, Session)
        for number, parting in enumerate(partings):
            onlooker.hear(f"fork {number + 1} of {len(partings)}: how clear the choice was")
            gap = _gap(plain.engine.target, parting.history, parting.trial.seed)
            parting.compared.forks.append(parting.fork(gap))


def _gap(plain: Context, history: list[int], seed: int | None) -> float:
    """How far, in logits, the best choice after `history` lies before the next."""
    plain.clear()
    plain.prefill(history[:-1])
    row = plain.decode(history[-1:])[0]
    if seed is None:
        best = np.partition(row.astype(np.float64), -2)[-2:]
        return float(best[1] - best[0])
    # Coupled sampling takes the largest of log p − log E; in logits that is T times as far.
    probs = warp(row, history, SAMPLED).probs_at(np.arange(len(row)))
    noise = GumbelNoise(seed).exponentials(len(history), np.arange(len(row)))
    best = np.partition(np.log(np.maximum(probs, 1e-300)) - np.log(noise), -2)[-2:]
    return float(best[1] - best[0]) * SAMPLED.temperature
