"""A verdict as data for programs, and as a bar, a table and sentences for people."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from specchat.fit.demand import Bytes, ModelDemand
from specchat.fit.pairs import NO_DRAFT
from specchat.fit.verdict import Fix, Verdict

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

SCHEMA: Final = 1
_MIB: Final = 1 << 20
_TEXT_ONLY: Final = "suffix"
_WIDEST_BAR: Final = 60
_NARROW: Final = 56
"""Columns below which the table keeps only names and totals."""
_STYLES: Final = {
    "target weights": "blue",
    "target KV": "cyan",
    "target compute": "bright_blue",
    "target roll-back": "bright_cyan",
    "target rows": "green",
    "draft weights": "magenta",
    "draft KV": "bright_magenta",
    "draft compute": "red",
    "draft rows": "bright_red",
    "overhead": "yellow",
    "margin": "bright_black",
}
_GLYPHS: Final = "█▓▒▚▞▆▄▂▖░┄"
"""One a part, so that they can be told apart without colour."""


def as_data(verdict: Verdict, asked: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The object of `--json`, every amount in bytes; `asked` as in `command`."""
    demand, memory, way_out = verdict.demand, verdict.memory, verdict.way_out
    return {
        "schema": SCHEMA,
        "model": verdict.model,
        "fits": verdict.fits,
        "exact": demand.exact,
        "context": demand.context,
        "largest_context": verdict.largest_context,
        "total_bytes": demand.total,
        "target": _parts(_side(verdict, demand.target)),
        "draft": None if demand.draft is None else _parts(_side(verdict, demand.draft)),
        "overhead_bytes": memory.overhead,
        "margin_bytes": memory.margin,
        "free_bytes": memory.free,
        "missing_bytes": verdict.missing,
        "device": memory.device,
        "device_total_bytes": memory.total,
        "on_device": demand.on_device,
        "head": demand.head,
        "planned": memory.planned,
        "fixes": [_fix(fix) for fix in verdict.fixes],
        "command": None if way_out is None else command(verdict, way_out, asked),
    }


def _side(verdict: Verdict, model: ModelDemand) -> Bytes:
    """The side that must fit."""
    return model.device if verdict.demand.on_device else model.host


def _parts(size: Bytes) -> dict[str, int]:
    return asdict(size)


def _fix(fix: Fix) -> dict[str, Any]:
    return {
        "what": fix.what,
        "options": list(fix.options),
        "model": fix.model,
        "frees_bytes": fix.frees,
        "total_bytes": fix.demand.total,
        "context": fix.demand.context,
        "fits": fix.fits,
        "exact": fix.demand.exact,
    }


def command(verdict: Verdict, fix: Fix, asked: Mapping[str, str] | None = None) -> str:
    """The command that starts the chat so; `asked`: the options of the plan, by name, as the user wrote them."""
    changed = dict(zip(fix.options[::2], fix.options[1::2], strict=True))
    options = {"-m": verdict.model, **(asked or {}), **changed, "--ctx": str(fix.demand.context)}
    if "-m" in changed:
        # The draft was chosen for the model that was asked for.
        options.pop("--draft", None)
    if options.get("--draft") == NO_DRAFT or options.get("--method") == _TEXT_ONLY:
        options.pop("--draft-kv", None)
    return shlex.join(["specchat", *itertools.chain.from_iterable(options.items())])


def mebibytes(size: int) -> str:
    """`13,302 MiB`."""
    return f"{size / _MIB:,.0f} MiB"


def sentence(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    demand, memory = verdict.demand, verdict.memory
    needs = f"{mebibytes(demand.total)} of {mebibytes(memory.usable)} usable on {memory.device}"
    about = "" if demand.exact else " (an estimate)"
    if not verdict.fits:
        return (
            f"{verdict.model} with a context of {demand.context:,} does not fit: it needs {needs}{about}, "
            f"{mebibytes(verdict.missing)} too many."
        )
    more = f" Up to {verdict.largest_context:,} would fit." if verdict.largest_context > demand.context else ""
    return f"{verdict.model} with a context of {demand.context:,} fits: it needs {needs}{about}.{more}"


def renderable(verdict: Verdict, width: int, asked: Mapping[str, str] | None = None) -> RenderableType:
    """The report for a terminal of `width` columns: verdict, bar, table, what to change; `asked` as in `command`."""
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text(sentence(verdict), style="green" if verdict.fits else "red"),
        Text(),
        _bar(verdict, width),
        _table(verdict, width),
    ]
    if verdict.fixes:
        parts += [Text(), _fix_table(verdict, width)]
    if verdict.way_out is not None:
        parts += [Text(), Text(f"Try: {command(verdict, verdict.way_out, asked)}", style="bold")]
    elif not verdict.fits:
        parts += [Text(), Text("Nothing here makes it fit. Choose a smaller model.", style="bold")]
    return Group(*parts)


def _rows(verdict: Verdict) -> Iterator[tuple[str, int]]:
    """What lies in memory, in order, by the names of `_STYLES`."""
    demand = verdict.demand
    for name, model in (("target", demand.target), ("draft", demand.draft)):
        if model is not None:
            side = _side(verdict, model)
            yield f"{name} weights", side.weights
            yield f"{name} KV", side.cache
            yield f"{name} compute", side.compute
            if side.rollback:
                yield f"{name} roll-back", side.rollback
            if demand.head is not None:
                yield f"{name} rows", side.rows
    if verdict.memory.overhead:
        yield "overhead", verdict.memory.overhead
    yield "margin", verdict.memory.margin


def _glyph(name: str) -> str:
    return _GLYPHS[list(_STYLES).index(name)]


def _bar(verdict: Verdict, width: int) -> Text:
    """All parts side by side, to the scale of what is free, or of what is needed where that is more."""
    from rich.text import Text

    columns = max(10, min(_WIDEST_BAR, width - 2))
    needed = sum(size for _, size in _rows(verdict))
    scale = max(verdict.memory.free, needed, 1)
    bar, end, drawn = Text(no_wrap=True, overflow="crop"), 0, 0
    for name, size in _rows(verdict):
        end += size
        # Ends are rounded, not lengths: so the whole is as long as it should be.
        bar.append(_glyph(name) * (round(end * columns / scale) - drawn), style=_STYLES[name])
        drawn = round(end * columns / scale)
    bar.append("·" * (columns - drawn), style="dim")
    return bar


def _table(verdict: Verdict, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    if width >= _NARROW:
        table.add_column(justify="right", no_wrap=True)
    share = max(verdict.memory.free, 1)

    def add(label: Text, size: int, style: str = "") -> None:
        cells = [label, Text(mebibytes(size), style=style)]
        table.add_row(*cells, *([Text(f"{size / share:.0%}", style="dim")] if width >= _NARROW else []))

    for name, size in _rows(verdict):
        label = name if verdict.demand.head is None else name.replace("draft", "head")
        add(Text.assemble((_glyph(name), _STYLES[name]), f" {label}"), size)
    add(Text("  together", style="bold"), sum(size for _, size in _rows(verdict)), "bold")
    add(Text("· free"), verdict.memory.free)
    return table


def _fix_table(verdict: Verdict, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("what to change", overflow="fold")
    table.add_column("frees", justify="right", no_wrap=True)
    table.add_column("enough" if width >= _NARROW else "", no_wrap=True)
    for fix in verdict.fixes:
        enough = Text("yes", style="green") if fix.fits else Text("no", style="dim")
        estimate = " (an estimate)" if verdict.demand.exact and not fix.demand.exact else ""
        table.add_row(Text(fix.what + estimate), Text(mebibytes(fix.frees)), enough)
    return table
