"""A picture of a contest, drawn with matplotlib (the extra `plot`), as PNG or SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from specchat.bench.entrants import PLAIN
from specchat.bench.results import Contest
from specchat.bench.summary import Row, Summary
from specchat.speculation.theory import ceiling

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
# Okabe and Ito's colours, which most colour-blind readers can tell apart; then their dashed double.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8B6F00")
_GREY = "#777777"
_LEGEND_COLUMNS = 8


def missing_for_plots() -> str | None:
    """What to install before a plot can be drawn; None where nothing is missing."""
    if find_spec("matplotlib") is not None:
        return None
    return 'A plot needs matplotlib, which is not installed. Get it with: pip install "matplotlib>=3.10,<4"'


def plot(found: Contest, summary: Summary, path: Path) -> None:
    """Write the picture; the ending of `path` (one of FORMATS) says how. Raises OSError."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 10), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 6)
    temperature = min(found.extent.temperatures)
    rows = [row for row in summary.overall if row.label != PLAIN.label]
    colours = _colours([label for label in found.labels if label != PLAIN.label])
    _by_kind(figure.add_subplot(grid[0, :4]), found, summary, temperature, colours)
    _alpha(figure.add_subplot(grid[0, 4:]), [row for row in rows if row.temperature == temperature], colours)
    _passes(figure.add_subplot(grid[1, :2]), found)
    _predictions(figure.add_subplot(grid[1, 2:4]), summary.by_kind, colours)
    _ceiling(figure.add_subplot(grid[1, 4:]), rows, colours)
    figure.suptitle(f"{found.model}: what drafting brings, measured by specchat bench on this machine")
    _name_contestants(figure, colours)
    figure.savefig(path, dpi=110)


def _colours(labels: Sequence[str]) -> dict[str, str]:
    return {label: _COLOURS[i % len(_COLOURS)] for i, label in enumerate(labels)}


def _name_contestants(figure: Figure, colours: Mapping[str, str]) -> None:
    """One legend below all panels: a contestant has the same colour in each."""
    from matplotlib.patches import Patch

    patches = [
        Patch(facecolor=colour, label=label, hatch=_hatch(i)) for i, (label, colour) in enumerate(colours.items())
    ]
    figure.legend(handles=patches, loc="outside lower center", ncols=_LEGEND_COLUMNS, frameon=False, fontsize=9)


def _hatch(place: int) -> str | None:
    """What tells contestants of the same colour apart."""
    return (None, "//", "..", "xx")[place // len(_COLOURS) % 4]


def _by_kind(axes: Axes, found: Contest, summary: Summary, temperature: float, colours: Mapping[str, str]) -> None:
    """Speed-up by class, a bar a method, with the range over pairs."""
    kinds = list(dict.fromkeys(sample.kind for sample in found.samples))
    width = 0.84 / max(1, len(colours))
    for i, (label, colour) in enumerate(colours.items()):
        rows = [(at, summary.row(label, temperature, kind)) for at, kind in enumerate(kinds)]
        bars = [(at, row.speedup) for at, row in rows if row is not None and row.speedup is not None]
        if bars:
            axes.bar(
                [at + (i - (len(colours) - 1) / 2) * width for at, _ in bars],
                [speedup.median for _, speedup in bars],
                width * 0.9,
                yerr=[[s.median - s.low for _, s in bars], [s.high - s.median for _, s in bars]],
                color=colour,
                hatch=_hatch(i),
                error_kw={"lw": 0.8, "ecolor": _GREY},
            )
    axes.axhline(1, color=_GREY, lw=1, ls="--")
    axes.set_xticks(range(len(kinds)), kinds)
    _name(axes, f"speed-up over plain decoding, T = {temperature:g}", None, "× plain (median, range)")


def _alpha(axes: Axes, rows: Sequence[Row], colours: Mapping[str, str]) -> None:
    """Acceptance by position of the draft."""
    for row in rows:
        if row.per_position:
            places = range(1, len(row.per_position) + 1)
            axes.plot(places, row.per_position, color=colours[row.label], marker="o", ms=4, lw=1.2)
    axes.set_ylim(0, 1.03)
    _whole_numbers(axes)
    _name(axes, f"acceptance by position{_at(rows)}", "position in the draft", "accepted / tested")


def _at(rows: Sequence[Row]) -> str:
    return f", T = {rows[0].temperature:g}" if rows else ""


def _passes(axes: Axes, found: Contest) -> None:
    """What a pass over n tokens costs."""
    if found.passes is not None:
        sizes = sorted(found.passes.seconds)
        median, low, high = ([found.passes.seconds[n][i] * 1000 for n in sizes] for i in range(3))
        axes.fill_between(sizes, low, high, color=_COLOURS[0], alpha=0.2, lw=0, label="range")
        axes.plot(sizes, median, color=_COLOURS[0], marker="o", ms=4, label="measured T(n)")
        axes.axhline(median[0], color=_GREY, lw=1, ls="--", label="free drafts: T(n) = T(1)")
        axes.plot(sizes, [median[0] * n for n in sizes], color=_GREY, lw=1, ls=":", label="no gain: n · T(1)")
        axes.set_ylim(0, max(high) * 1.1)
        _legend(axes)
    _name(axes, "cost of a pass over n tokens", "n", "ms")


def _predictions(axes: Axes, rows: Sequence[Row], colours: Mapping[str, str]) -> None:
    """Predicted against measured speed-up, a point a class, method and temperature."""
    points = [(row.label, row.speedup.median, row.predicted) for row in rows if row.speedup and row.predicted]
    end = 1.1 * max([1.0, *(max(measured, predicted) for _, measured, predicted in points)])
    for label, measured, predicted in points:
        axes.scatter([measured], [predicted], s=22, color=colours[label])
    axes.plot([0, end], [0, end], color=_GREY, lw=1)
    axes.fill_between([0, end], [0, end * 0.9], [0, end * 1.1], color=_GREY, alpha=0.15, lw=0, label="within 10 %")
    axes.set_xlim(0, end)
    axes.set_ylim(0, end)
    _name(axes, "predicted against measured speed-up", "measured, × plain", "predicted, × plain")
    _legend(axes)


def _ceiling(axes: Axes, rows: Sequence[Row], colours: Mapping[str, str]) -> None:
    """Tokens a step and speed-up by α under the ceiling 1 / (1 − α)."""
    alphas = [i / 100 for i in range(96)]
    axes.plot(alphas, [ceiling(a) for a in alphas], color=_GREY, lw=1.2, label="ceiling 1 / (1 − α)")
    highest = 2.0
    for row in rows:
        if row.alpha is None or row.tokens_per_step is None:
            continue
        colour = colours[row.label]
        axes.scatter([row.alpha], [row.tokens_per_step], s=26, facecolors="none", edgecolors=colour)
        highest = max(highest, row.tokens_per_step)
        if row.speedup:
            axes.scatter([row.alpha], [row.speedup.median], s=26, color=colour)
            highest = max(highest, row.speedup.median)
    axes.axhline(1, color=_GREY, lw=1, ls="--")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, highest * 1.5)
    _name(axes, "under the ceiling (hollow: tokens a step; full: speed-up)", "α", "× plain, tokens a step")
    _legend(axes)


def _name(axes: Axes, title: str, x: str | None, y: str) -> None:
    axes.set_title(title, fontsize=11)
    if x:
        axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)


def _whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend(axes: Axes) -> None:
    axes.legend(fontsize=8, frameon=False)
