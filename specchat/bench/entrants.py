"""Who takes part in a contest: a method at a depth, opened with caches that know nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from specchat.bench.synthetic import OracleDrafter
from specchat.chat.message import Message
from specchat.chat.models import Models
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.engine.settings import AnswerSettings
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

CONTEXT = 2048
METHODS = tuple(method for method in Method if method not in (Method.NONE, *HEAD_METHODS))
"""Those that every model has; a trained head is one of its own."""
_OWN_DEPTH = (Method.AUTO, Method.LOOKAHEAD, Method.NONE)
_WITHOUT_DRAFT = (
    Method.NONE, Method.EARLY_EXIT, Method.LAYER_SKIP, Method.REST, Method.PROMPT_LOOKUP, Method.SUFFIX,
    Method.LOOKAHEAD,
)  # fmt: skip
_ORACLE_SEED = 7


@dataclass(frozen=True, slots=True)
class Model:
    """What is run and on what."""

    model: str | None
    draft: str | None = None
    threads: int | None = None
    gpu_layers: int = -1

    def settled(self) -> Model:
        """With a model's name in the place of the default; raises ModelUnavailable where there is none.

        Choosing looks at the memory that is free, which an open session changes: chosen twice, two models might be
        compared with each other.
        """
        return replace(self, model=Models.settle(self.model))


@dataclass(frozen=True, slots=True)
class Arm:
    """A method at a depth; `alpha` makes it the oracle of that acceptance rate."""

    method: Method
    depth: int | None = None
    """Tokens drafted a step; None: the method's own choice."""
    alpha: float | None = None

    @property
    def label(self) -> str:
        """Its name in tables."""
        name = self.method.value if self.alpha is None else f"oracle {self.alpha:g}"
        return name if self.depth is None else f"{name} k={self.depth}"

    def request(self, model: Model) -> ModelRequest:
        """What to open."""
        return ModelRequest(
            model=model.model,
            draft=None if self.method in _WITHOUT_DRAFT else model.draft,
            method=self.method,
            draft_tokens=None if self.method in _OWN_DEPTH else self.depth,
            context=CONTEXT,
            threads=model.threads,
            gpu_layers=model.gpu_layers,
            past_text=False,
        )


PLAIN = Arm(Method.NONE)


@dataclass(frozen=True, slots=True)
class Figures:
    """One answer, its time counted from the first token to the last; the first token itself is in no figure.

    All that drafting costs lies in that time: reading the prompt with a draft, measuring, building an index.
    """

    tokens: int
    seconds: float
    ttft_s: float
    steps: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    draft_s: float = 0.0
    depths: dict[int, int] = field(default_factory=dict)
    """Steps by the tokens they drafted."""
    tested_at: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        """Tokens a second; None for an answer that ended with its first token."""
        return self.tokens / self.seconds if self.tokens and self.seconds > 0 else None


class Entrant(Protocol):
    """One that answers."""

    @property
    def label(self) -> str:
        """Its name in tables."""

    def answer(self, messages: Sequence[Message], temperature: float, tokens: int) -> Figures:
        """The figures of one answer of at most `tokens` tokens, nothing of the prompt being in a cache."""

    def close(self) -> None:
        """Free what it holds."""


class Ours:
    """An open session; `alone` answers plainly whatever its method, as the base where no other session fits."""

    def __init__(self, arm: Arm, session: Session, *, alone: bool = False) -> None:
        self.arm = arm
        self.session = session
        self._alone = alone
        self._oracle: OracleDrafter | None = None
        self._texts: dict[tuple[tuple[Message, ...], float, int], list[int]] = {}
        if arm.alpha is not None:
            session.engine.drafter.close()
            self._oracle = OracleDrafter(arm.alpha, session.engine.vocab.size)
            session.engine.drafter = self._oracle

    @property
    def label(self) -> str:
        """Its name in tables."""
        return PLAIN.label if self._alone else self.arm.label

    def answer(self, messages: Sequence[Message], temperature: float, tokens: int) -> Figures:
        """One answer, without truncation of the distribution."""
        settings = self._settings(temperature, tokens, speculate=not self._alone)
        if self._oracle is not None:
            self._oracle.text = self._text(messages, temperature, tokens)
        self.session.engine.target.clear()
        return _timed(self.session, messages, settings)

    def close(self) -> None:
        """Free the models."""
        self.session.close()

    def _settings(self, temperature: float, tokens: int, *, speculate: bool) -> AnswerSettings:
        sampling = SamplingParams(temperature, 0, 1, 0)
        if self._oracle is None:
            return AnswerSettings(sampling, max_tokens=tokens, speculate=speculate)
        # The oracle needs a text that can be known beforehand: coupling fixes it at any temperature.
        return AnswerSettings(sampling, AcceptanceMode.COUPLED, _ORACLE_SEED, max_tokens=tokens, speculate=speculate)

    def _text(self, messages: Sequence[Message], temperature: float, tokens: int) -> list[int]:
        """The transcript that this answer will have; written plainly when first asked for, outside of any clock."""
        key = (tuple(messages), temperature, tokens)
        if key not in self._texts:
            self.session.engine.target.clear()
            turn = self.session.ask(messages, self._settings(temperature, tokens, speculate=False))
            for _ in turn:
                pass
            self._texts[key] = list(turn.answer.transcript)
        return self._texts[key]


def _timed(session: Session, messages: Sequence[Message], settings: AnswerSettings) -> Figures:
    depths, tested_at, accepted_at = Counter[int](), Counter[int](), Counter[int]()
    started = last = first = time.perf_counter()
    seen = tested = accepted = 0
    turn = session.ask(messages, settings)
    for progress in turn:
        step = progress.step
        if step is None:
            break
        last = time.perf_counter()
        if not seen:
            first = last
        else:
            depths[step.drafted] += 1
            tested_at.update(range(step.tested))
            accepted_at.update(range(step.accepted))
            tested, accepted = tested + step.tested, accepted + step.accepted
        seen += 1
    metrics = turn.answer.metrics
    return Figures(
        tokens=max(0, len(turn.answer.token_ids) - 1),
        seconds=last - first,
        ttft_s=first - started,
        steps=max(0, seen - 1),
        drafted=metrics.drafted,
        tested=tested,
        accepted=accepted,
        draft_s=metrics.draft_s,
        depths=dict(sorted(depths.items())),
        tested_at=[tested_at[i] for i in range(len(tested_at))],
        accepted_at=[accepted_at[i] for i in range(len(tested_at))],
    )


def enter(model: Model, arm: Arm, folder: Path) -> Session:
    """An open session that knows of no earlier measurement and leaves none; raises what `open_session` raises."""
    return open_session(replace(arm.request(model), costs=folder / arm.label.replace(" ", "-")))
