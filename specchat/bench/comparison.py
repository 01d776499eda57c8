"""Drafting against plain decoding on the same few questions: the numbers of a short comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Speed(Protocol):
    """What is compared of an answer; the meanings are those of `speculation.metrics`."""

    @property
    def tokens(self) -> int:
        """That were written."""

    @property
    def tok_s(self) -> float | None:
        """Tokens a second of decoding; None where nothing was decoded."""

    @property
    def alpha(self) -> float | None:
        """Accepted over tested."""

    @property
    def tokens_per_step(self) -> float | None:
        """τ."""


@dataclass(frozen=True, slots=True)
class Run:
    """One question, answered both ways."""

    kind: str
    drafted: Speed
    plain: Speed

    @property
    def speedup(self) -> float | None:
        """Of the one over the other; None where either has no speed."""
        return self.drafted.tok_s / self.plain.tok_s if self.drafted.tok_s and self.plain.tok_s else None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What all of them say together."""

    method: str
    tokens: int
    """The most that an answer could have."""
    runs: Sequence[Run]

    @property
    def drafted_tok_s(self) -> float:
        """Tokens a second with drafts, over all questions: all tokens over all seconds."""
        return _tok_s([run.drafted for run in self.runs])

    @property
    def plain_tok_s(self) -> float:
        """Tokens a second without."""
        return _tok_s([run.plain for run in self.runs])

    @property
    def speedup(self) -> float:
        """Of the one over the other; 0 where there is no plain speed."""
        return self.drafted_tok_s / self.plain_tok_s if self.plain_tok_s else 0.0


def _tok_s(answers: Sequence[Speed]) -> float:
    seconds = sum(each.tokens / each.tok_s for each in answers if each.tok_s)
    return sum(each.tokens for each in answers if each.tok_s) / seconds if seconds else 0.0
