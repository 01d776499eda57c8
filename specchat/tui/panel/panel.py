"""The side panel: rates, positions, time, the choice of the moment, and what theory says of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from specchat.tui.panel.reasons import Choice, source, why
from specchat.tui.panel.strokes import bar, sparkline
from specchat.tui.panel.theory import theory_of, tokens
from specchat.tui.panel.track import Track
from specchat.tui.wording import rate
from specchat.worker.messages import Figures

_WIDTH: Final = 32
_DIM, _STRONG, _LINE = "$foreground-muted", "bold $foreground", "$primary"
_POSITIONS: Final = 8
"""More positions than that are not shown: few drafts reach them."""


class Panel(VerticalScroll):
    """Shows the figures of the answer being written, else of the last one."""

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("panel.tcss").read_text(encoding="utf-8")
    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown = Content("")

    def compose(self) -> ComposeResult:
        """One text, drawn anew."""
        yield Static(id="figures", markup=False)

    def show(self, track: Track, choice: Choice) -> None:
        """Draw the newest figures."""
        text = drawn(track, choice, _WIDTH)
        if text != self._shown:
            # Laying the whole screen out anew is dear: only where the panel has other lines.
            taller = text.plain.count("\n") != self._shown.plain.count("\n")
            self._shown = text
            self.query_one("#figures", Static).update(text, layout=taller)


def drawn(track: Track, choice: Choice, width: int) -> Content:
    """The panel's text, `width` characters wide."""
    blocks = [
        _rates(track, choice, width),
        list(_positions(track.figures, width)),
        _time(track.figures, width),
        _now(track.figures, choice),
        _theory(track.figures),
    ]
    return Content("\n\n").join(Content("\n").join(block) for block in blocks if block)


def _heading(words: str) -> Content:
    return Content.styled(words, "bold $secondary")


def _rates(track: Track, choice: Choice, width: int) -> list[Content]:
    figures, series = track.figures, track.series
    lines = [_heading("Drafting") + Content.styled(f" {choice.method}" if choice.method else "", _DIM)]
    space = width - 17
    lines += [
        _rate("α", _number(figures.alpha), series.alpha, space),
        _rate("τ tok/step", _number(figures.tokens_per_step), series.tokens_per_step, space),
        _rate("tok/s", rate(figures.tok_s) if figures.tok_s else "–", series.tok_s, space),
    ]
    base = figures.plain_tok_s
    lines.append(_rate("plain", rate(base) if base else "–", series.plain_tok_s, space))
    if base and figures.speedup is not None and figures.drafted:
        lines.append(_rate("speed-up", f"{figures.speedup:.2f}×", series.speedup, space))
        lines.append(Content.styled(f"  over {rate(base)} tok/s, measured", _DIM))
    else:
        # Plain decoding has no speed-up over itself.
        why_none = "nothing was drafted" if base else "no plain rate measured yet"
        lines.append(Content.styled(f"  {why_none}", _DIM))
    return lines


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _rate(name: str, value: str, points: Sequence[float], space: int) -> Content:
    return Content.assemble(
        (f"{name:<11}", _DIM), (f"{value:>5}", _STRONG), " ", (sparkline(list(points), space), _LINE)
    )


def _positions(figures: Figures, width: int) -> Iterator[Content]:
    if not figures.per_position:
        return
    yield _heading("Accepted by position")
    space = width - 9
    for position, share in enumerate(figures.per_position[:_POSITIONS], start=1):
        drawn_bar = bar(share, space)
        yield Content.assemble(
            (f"{position:>2} ", _DIM), (f"{drawn_bar:<{space}}", "$success"), (f" {share:>4.0%}", _STRONG)
        )
    more = len(figures.per_position) - _POSITIONS
    if more > 0:
        yield Content.styled(f"   and {more} more", _DIM)


def _time(figures: Figures, width: int) -> list[Content]:
    whole = figures.draft_s + figures.verify_s
    if whole <= 0:
        return []
    share = figures.draft_s / whole
    full = round(share * width)
    return [
        _heading("Time"),
        Content.assemble(("█" * full, "$warning"), ("█" * (width - full), "$primary 60%")),
        Content.assemble((f"draft {share:.0%}", "$warning"), (f"{f'verify {1 - share:.0%}':>{width - 10}}", _DIM)),
    ]


def _now(figures: Figures, choice: Choice) -> list[Content]:
    if not figures.steps:
        return []
    lines = [_heading("Last step"), Content.styled(source(figures, choice), _STRONG)]
    reason = why(figures, choice)
    if reason:
        lines.append(Content.styled(reason, _DIM))
    if figures.methods:
        tally = " · ".join(f"{name or choice.method} {steps}" for name, steps in figures.methods.items())
        lines.append(Content.styled(tally, _DIM))
    return lines


def _theory(figures: Figures) -> list[Content]:
    theory = theory_of(figures)
    if theory is None:
        return []
    return [
        _heading("Theory, tokens a step"),
        _pair("ceiling 1/(1−α)", tokens(theory.ceiling)),
        _pair(f"expected at γ {theory.gamma}", tokens(theory.expected)),
        _pair("measured", _number(figures.tokens_per_step)),
    ]


def _pair(name: str, value: str) -> Content:
    return Content.assemble((f"{name:<20}", _DIM), (f"{value:>8}", _STRONG))
