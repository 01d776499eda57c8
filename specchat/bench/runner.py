"""One answer of one contestant, and what it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specchat.bench.files import LARGE, bench_directory, depth_target, padded_pair
from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate
from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, Session
from specchat.drafters.method import Method
from specchat.engine.settings import AnswerSettings
from specchat.engine.speed import speed_of
from specchat.speculation.params import SamplingParams


@dataclass(frozen=True)
class Result:
    """One answer."""

    tokens: int
    steps: int
    accepted: int
    tested: int
    decode_s: float
    whole_s: float
    ttft_s: float
    ids: tuple[int, ...]
    base_tok_s: float | None = None
    """The plain rate that was measured inside this answer or before."""

    @property
    def rate(self) -> float:
        """Tokens a second, the first token's pass and all of the drafter's own work included."""
        return self.tokens / self.decode_s


def answer(session: Session, prompt: str, temperature: float, tokens: int) -> Result:
    """One answer to `prompt`, none of which is in the target's cache; no truncation of the distribution."""
    session.engine.target.clear()
    settings = AnswerSettings(SamplingParams(temperature, 0, 1, 0), max_tokens=tokens)
    started = time.perf_counter()
    turn = session.ask([Message(Role.USER, prompt)], settings)
    for _ in turn:
        pass
    whole = time.perf_counter() - started
    made, figures = turn.answer, turn.answer.metrics
    return Result(
        tokens=len(made.token_ids),
        steps=figures.steps,
        accepted=figures.accepted,
        tested=figures.tested,
        decode_s=made.decode_s,
        whole_s=whole,
        ttft_s=made.timings.ttft_s or whole,
        ids=tuple(made.token_ids),
        base_tok_s=speed_of(session.engine, made).plain_tok_s,
    )


def repeated(ids: Sequence[int]) -> float:
    """The share of 8-grams that occurred before in the same answer."""
    grams = [tuple(ids[i : i + 8]) for i in range(len(ids) - 7)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def request(target: str, method: Method, draft_tokens: int | None, threads: int) -> ModelRequest:
    """What to open for `target`, one of demo, padded, large, depth."""
    folder, model, draft = bench_directory(), "demo", None
    if target == "padded":
        model, draft = map(str, padded_pair(folder))
    elif target == "large":
        # A draft that agrees more often, since it was cut less.
        model, draft = map(str, padded_pair(folder, LARGE, 28))
    elif target == "depth":
        # The demo drafts for the demo with idle layers behind it.
        model, draft = str(depth_target(folder)), str(locate(Catalogue().find("demo").target))
    return ModelRequest(
        model=model,
        draft=draft if method in (Method.DRAFT, Method.AUTO) else None,
        method=method,
        draft_tokens=None if method is Method.NONE else draft_tokens,
        context=2048,
        threads=threads,
        past_text=False,
    )
