"""How fast an answer was, and against what."""

from __future__ import annotations

from dataclasses import dataclass

from specchat.drafters.method import Method
from specchat.engine.answer import Answer
from specchat.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Speed:
    """Tokens a second of an answer and of plain decoding at its context; None where unknown or never measured."""

    tok_s: float | None
    plain_tok_s: float | None

    @property
    def speedup(self) -> float | None:
        """Over measured plain decoding."""
        return self.tok_s / self.plain_tok_s if self.tok_s and self.plain_tok_s else None


def speed_of(engine: Engine, answer: Answer) -> Speed:
    """The speed of `answer`: decoding only, all of the drafter's own work included."""
    written, seconds = len(answer.token_ids), answer.decode_s
    rate = written / seconds if written and seconds > 0 else None
    if engine.method is Method.NONE:
        # Plain decoding is the base itself.
        return Speed(rate, None)
    return Speed(rate, engine.plain_tok_s(answer.timings.prompt_tokens + written // 2))
