"""`specchat bench`: what drafting brings on this machine, by method, depth, temperature and kind of prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.table import Table

from specchat.bench.contest import arms_of, contest, oracles
from specchat.bench.entrants import METHODS, PLAIN, Model
from specchat.bench.extent import FULL, QUICK, Extent
from specchat.bench.plot import FORMATS, missing_for_plots, plot
from specchat.bench.prompts import BENCH_CLASSES
from specchat.bench.results import Contest
from specchat.bench.summary import Row, Spread, Summary, as_data, summarise
from specchat.chat.text import visible
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.output import Stdout, as_json
from specchat.cli.page import Page
from specchat.cli.told import Told
from specchat.drafters.method import Method

_NARROW, _WIDE = 80, 92
_LEGEND = "p/m: predicted speed-up (from T(n), acceptance and the drafter's time) over measured"
_NEAR = 0.1
"""How far a prediction may be off for the costs to be understood."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose; empty and None stand for the extent's own."""

    methods: tuple[Method, ...] = ()
    depths: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    kinds: tuple[str, ...] = ()
    tokens: int | None = None
    rounds: int | None = None
    quick: bool = False
    full: bool = False
    peer: bool = False
    synthetic_alpha: float | None = None
    json_file: Path | None = None
    plot_file: Path | None = None


def bench_model(environment: Environment, model: Model, choices: Choices) -> ExitCode:
    """Measure and print. Raises UsageError for choices that can't be met, and what `exit_code_of` knows."""
    extent = _extent(choices)
    _check_files(choices)
    diagnostics = Diagnostics(environment)
    peers = None
    if choices.peer:
        from specchat.bench.peers import installed
        from specchat.bench.peers import peers as peers_of

        peers = peers_of(full=choices.full)
        if not installed():
            diagnostics.note('llama.cpp\'s server is not here. Get it with: pip install "xllamacpp>=2026.10,<2027"')
    if choices.synthetic_alpha is not None:
        arms = oracles(choices.synthetic_alpha, choices.depths)
    else:
        arms = arms_of(choices.methods or METHODS, choices.depths, full=choices.full)
    model = model.settled()
    told = Told(environment, diagnostics)
    try:
        found = contest(model, extent, arms, told, peers)
    finally:
        diagnostics.end_progress()
    return _report(environment, diagnostics, found, choices)


def _extent(choices: Choices) -> Extent:
    if choices.quick and choices.full:
        raise UsageError("--quick and --full contradict each other: use one of the two.")
    if choices.synthetic_alpha is not None and (choices.methods or not 0 <= choices.synthetic_alpha <= 1):
        raise UsageError("--synthetic-alpha takes a rate from 0 to 1, and stands in for --method.")
    unknown = next((kind for kind in choices.kinds if kind not in BENCH_CLASSES), None)
    if unknown is not None:
        raise UsageError(f"There is no class of prompts {unknown!r}; there are: {', '.join(BENCH_CLASSES)}.")
    for name, values, low, high in (
        ("draft-tokens", choices.depths, 1, 64),
        ("temperature", choices.temperatures, 0, 100),
        ("max-tokens", () if choices.tokens is None else (choices.tokens,), 4, 1024),
        ("rounds", () if choices.rounds is None else (choices.rounds,), 1, 1000),
    ):
        wrong = next((value for value in values if not low <= value <= high), None)
        if wrong is not None:
            raise UsageError(f"--{name} is {wrong:g}, but it must lie between {low:,} and {high:,}.")
    extent = QUICK if choices.quick else FULL if choices.full else Extent()
    chosen = {
        "kinds": tuple(dict.fromkeys(choices.kinds)),
        "temperatures": tuple(dict.fromkeys(choices.temperatures)),
        "tokens": choices.tokens,
        "rounds": choices.rounds,
    }
    return replace(extent, **{name: value for name, value in chosen.items() if value})  # type: ignore[arg-type]


def _check_files(choices: Choices) -> None:
    """Refuse what can't be written before minutes are spent on it."""
    if choices.plot_file is not None and choices.plot_file.suffix.lower() not in FORMATS:
        raise UsageError(f"--plot writes {' or '.join(FORMATS)} files, which {choices.plot_file.name!r} is not.")
    for name, path in (("json", choices.json_file), ("plot", choices.plot_file)):
        if path is None or str(path) == "-":
            continue
        folder = path.parent
        if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
            raise UsageError(f"--{name}: {path} can't be written. Name a file in a directory of yours.")
    missing = None if choices.plot_file is None else missing_for_plots()
    if missing is not None:
        raise UsageError(missing)


def _report(environment: Environment, diagnostics: Diagnostics, found: Contest, choices: Choices) -> ExitCode:
    summary, stdout = summarise(found), Stdout(environment)
    data = as_json(as_data(found, summary)) + "\n"
    if str(choices.json_file) == "-":
        stdout.write(data)
    else:
        stdout.write(laid_out(environment, found, summary))
    try:
        if choices.json_file is not None and str(choices.json_file) != "-":
            choices.json_file.write_text(data, encoding="utf-8")
        if choices.plot_file is not None:
            plot(found, summary, choices.plot_file)
    except OSError as error:
        raise UsageError(f"{error.filename} could not be written ({error.strerror}).") from None
    for note in found.notes:
        diagnostics.note(note)
    return ExitCode.INTERRUPTED if found.interrupted else ExitCode.OK


def laid_out(environment: Environment, found: Contest, summary: Summary) -> str:
    """The tables for people, as wide as the terminal; colour on a terminal only."""
    page = Page(environment)
    page.print(_head(found))
    page.print(_overall(summary.overall, page.width))
    page.print(_predictions(summary.overall))
    for temperature in dict.fromkeys(row.temperature for row in summary.by_kind):
        page.print(f"\nspeed-up by class, T = {temperature:g}")
        page.print(_by_kind(found, summary, temperature, page.width))
    page.print()
    for gone in found.missing:
        page.print(f"{gone.label}: not here: {visible(gone.reason)}")
    return page.text


def _head(found: Contest) -> str:
    extent = found.extent
    rounds = f"{extent.rounds} round{'s' if extent.rounds > 1 else ''} in turns"
    if found.openings > 1:
        rounds += f", opened anew {found.openings - 1} time{'s' if found.openings > 2 else ''}"
    took = f"in {found.seconds:.0f} s{' (interrupted)' if found.interrupted else ''}"
    cut = ""
    if found.left_out:
        why = "not measured" if found.interrupted else "left out for want of time (--full has no limit)"
        cut = f"\n{why.capitalize()}: {found.left_out}."
    passes = ""
    if found.passes is not None:
        one = found.passes.seconds[1][0]
        shown = ", ".join(f"{n}: {ratio:.2f}" for n, ratio in sorted(found.passes.ratios.items()) if n > 1)
        passes = f"\nA pass over 1 token takes {one * 1000:.3g} ms; over n tokens, times as much: {shown}."
    return f"{visible(found.model)}, up to {found.tokens} tokens an answer, {rounds}, {took}.{cut}{passes}\n"


def _predictions(rows: Sequence[Row]) -> str:
    errors = [row.error for row in rows if row.error is not None]
    near = sum(abs(error) <= _NEAR for error in errors)
    return f"{_LEGEND}; within {_NEAR:.0%} in {near} of {len(errors)} rows."


def _overall(rows: Sequence[Row], width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("method", overflow="fold")
    names = ["T", "α", "tok/s", "speed-up"]
    if width >= _NARROW:
        names = ["T", "α", "τ", "tok/s", "speed-up", "predicted", "p/m", "ceiling"]
    if width >= _WIDE:
        names.insert(5, "range")
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        cells = {
            "T": f"{row.temperature:g}",
            "α": _number(row.alpha),
            "τ": _number(row.tokens_per_step),
            "tok/s": _number(_median(row.tok_s), 1),
            "speed-up": _number(_median(row.speedup)),
            "range": _range(row.speedup),
            "predicted": _number(row.predicted),
            "p/m": _number(None if row.error is None else 1 + row.error),
            "ceiling": "∞" if row.alpha == 1 else _number(row.ceiling),
        }
        table.add_row(row.label, *(cells[name] for name in names), style=_style(row))
    return table


def _by_kind(found: Contest, summary: Summary, temperature: float, width: int) -> Table:
    """Methods by classes; where they don't fit side by side, a line a method and class."""
    kinds = list(dict.fromkeys(sample.kind for sample in found.samples))
    labels = [label for label in found.labels if label != PLAIN.label]
    table = Table(box=None, pad_edge=False)
    table.add_column("method", overflow="fold")
    found_rows = {(label, kind): summary.row(label, temperature, kind) for label in labels for kind in kinds}
    shown = {key: _number(_median(row.speedup) if row else None) for key, row in found_rows.items()}
    if width >= max(map(len, labels), default=6) + sum(max(4, len(kind)) + 2 for kind in kinds):
        for kind in kinds:
            table.add_column(kind, justify="right")
        for label in labels:
            table.add_row(label, *(shown[label, kind] for kind in kinds))
        return table
    table.add_column("class", overflow="fold")
    table.add_column("speed-up", justify="right")
    for label in labels:
        for kind in kinds:
            table.add_row(label, kind, shown[label, kind])
    return table


def _style(row: Row) -> str | None:
    if row.speedup is None:
        return "dim"
    return "green" if row.speedup.median >= 1.03 else None


def _median(spread: Spread | None) -> float | None:
    return None if spread is None else spread.median


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _range(spread: Spread | None) -> str:
    return "–" if spread is None else f"{spread.low:.2f}..{spread.high:.2f}"
