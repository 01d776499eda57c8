"""The figures of the answer being written and of those before it, as series for the sparklines."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from specchat.worker.messages import Figures

_KEPT: Final = 64
_WINDOW_S: Final = 0.5
"""A point of a sparkline sums up so much time: single steps jump too much to read."""


@dataclass(slots=True)
class Series:
    """What the sparklines draw; each holds its latest points."""

    alpha: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    tokens_per_step: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    tok_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    plain_tok_s: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    speedup: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))


class Track:
    """Turns running totals into points: what was decoded since the last point, not since the beginning."""

    def __init__(self) -> None:
        self.series = Series()
        self.figures = Figures()
        """The newest."""
        self._from = Figures()
        self._last = Figures()
        """Of the last answer that has any."""

    def begin(self) -> None:
        """An answer begins: its totals start at nothing."""
        self.figures = self._from = Figures()

    def take(self, figures: Figures) -> None:
        """Add the totals so far, and a point once enough time was decoded since the last one."""
        self.figures = figures
        before = self._from
        seconds = _decode_s(figures) - _decode_s(before)
        if seconds < _WINDOW_S or figures.steps <= before.steps:
            return
        self._from = figures
        self._add_point(figures, before, seconds)

    def finish(self, figures: Figures) -> None:
        """The answer ended: a short one is one point, and one without a token leaves what was there before."""
        self._last = figures if figures.tokens else self._last
        self.figures = self._last
        before = self._from
        seconds = _decode_s(figures) - _decode_s(before)
        if before.steps == 0 and figures.steps > 0 and seconds > 0:
            self._add_point(figures, before, seconds)
        self._from = figures

    def _add_point(self, figures: Figures, before: Figures, seconds: float) -> None:
        series, rate = self.series, (figures.tokens - before.tokens) / seconds
        series.tok_s.append(rate)
        series.tokens_per_step.append((figures.tokens - before.tokens) / (figures.steps - before.steps))
        tested = figures.tested - before.tested
        if tested > 0:
            series.alpha.append((figures.accepted - before.accepted) / tested)
        if figures.plain_tok_s:
            series.plain_tok_s.append(figures.plain_tok_s)
            if figures.speedup is not None:
                series.speedup.append(rate / figures.plain_tok_s)


def _decode_s(figures: Figures) -> float:
    return figures.draft_s + figures.verify_s
