"""What a pass over several tokens computes against passes over one: the ground that identity stands on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specchat.bench.audit.contestants import NOBODY, Onlooker, ask, contestant
from specchat.bench.entrants import Model
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.engine.settings import AnswerSettings
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.speculation.params import SamplingParams

BATCHES = (2, 4, 5, 8)


@dataclass(frozen=True, slots=True)
class Numerics:
    """Rows of logits of one text, computed in blocks of several tokens and one by one."""

    positions: int
    largest_difference: float
    """Of any logit."""
    flips: dict[int, int]
    """By block size: positions with another most likely token."""

    @property
    def identical(self) -> bool:
        """Whether every logit was equal to the last bit."""
        return self.largest_difference == 0


def measure(model: Model, prompt: str, tokens: int, onlooker: Onlooker = NOBODY, *, batches: Sequence[int]) -> Numerics:
    """Compare the rows of an answer of `tokens` tokens. Raises what opening the model raises, and AuditCancelled."""
    with contestant(model, Method.NONE) as plain:
        assert isinstance(plain, Session)
        onlooker.hear("numerics: a text to compare")
        answer = ask(plain, prompt, AnswerSettings(SamplingParams(0.0), max_tokens=tokens), onlooker)
        held, written = answer.transcript[: answer.timings.prompt_tokens], answer.token_ids
        params = plain.engine.target.params
        several = ContextParams(params.n_ctx, max(batches), params.threads, kv_type=params.kv_type)
        with Context(plain.engine.model, several) as context:
            onlooker.hear("numerics: one token a pass")
            single = _rows(context, held, written, 1, onlooker)
            largest, flips = 0.0, dict[int, int]()
            for batch in batches:
                onlooker.hear(f"numerics: {batch} tokens a pass")
                rows = _rows(context, held, written, batch, onlooker)
                largest = max(largest, float(np.abs(rows - single).max()))
                flips[batch] = int((rows.argmax(axis=1) != single.argmax(axis=1)).sum())
    return Numerics(len(written), largest, flips)


def _rows(context: Context, held: Sequence[int], written: Sequence[int], batch: int, onlooker: Onlooker) -> np.ndarray:
    """Logits [len(written), V] after each of `written`, read `batch` tokens a pass."""
    context.clear()
    context.prefill(list(held))
    rows = list[np.ndarray]()
    for i in range(0, len(written), batch):
        onlooker.go_on()
        rows.append(context.decode(written[i : i + batch]).copy())
    return np.concatenate(rows)
