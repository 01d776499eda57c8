"""BENCHMARKS.md from records: a template with notes, into which each record puts its tables.

The template is Markdown with two kinds of blocks, which may not lie in each other:

    <!-- record peer-plain*.json -->    the records whose file names match; without any, the text up to the end
    <!-- end -->
    <!-- section Title: bench-*.json --> a section of this title with the text and the records, where there are any
    <!-- end -->

Records that no block names follow at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any, Final

from specchat.bench.gpu_check.report import stage_line, table

Record = Mapping[str, Any]
_BLOCK: Final = re.compile(r"<!-- (record|section) (?:([^>]*?): )?(\S+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
_COMMENT: Final = re.compile(r"<!-- template:.*?-->\n+", re.DOTALL)


class PageError(ValueError):
    """The template or a record can't be used as it is; the message says why."""


def page(template: str, records: Mapping[str, Record]) -> str:
    """The whole page; `records` by file name. Raises PageError."""
    named = set[str]()

    def block(match: re.Match[str]) -> str:
        kind, title, pattern, text = match.groups()
        found = sorted(name for name in records if fnmatch(name, pattern))
        named.update(found)
        if kind == "record":
            return "\n".join(_whole(records[name]) for name in found) if found else text
        return "\n".join([f"## {title}\n", text, *(_whole(records[name]) for name in found)]) if found else ""

    made = _BLOCK.sub(block, _COMMENT.sub("", template))
    if "<!--" in made:
        raise PageError("The template has a block that does not end, or a comment that is none of its own.")
    others = sorted(set(records) - named)
    if others:
        made += "\n## Further records\n\n" + "\n".join(f"### {name}\n\n{_whole(records[name])}" for name in others)
    return re.sub(r"\n{3,}", "\n\n", made).rstrip() + "\n"


def _whole(record: Record) -> str:
    return "\n".join([_head(record), "", *_body(record)]).rstrip() + "\n"


def _head(record: Record) -> str:
    """What measured, when and on what, in a paragraph."""
    machine = record.get("machine") or {}
    versions = ", ".join(f"{name} {version}" for name, version in (record.get("versions") or {}).items())
    model = " ".join(filter(None, (record.get("model"), record.get("quantisation"))))
    threads, flash = record.get("threads"), record.get("flash_attention")
    said = [
        f"`{record['command']}`" if record.get("command") else "",
        str(record.get("measured", "")).replace("T", " ").replace("+00:00", " UTC"),
        model,
        f"{threads} thread{'s' if threads != 1 else ''}" if threads else "",
        f"flash attention {flash}" if flash else "",
        f"{machine['processor']}, {machine['cores']} cores, load {machine['load']}" if "processor" in machine else "",
        versions,
    ]
    return "Measured: " + ("; ".join(filter(None, said)) or "the record doesn't say when, nor on what") + "."


def _body(record: Record) -> Iterator[str]:
    if record.get("tool") == "specchat bench":
        yield from _bench(record)
    elif record.get("tool") == "specchat audit":
        yield from _audit(record)
    elif record.get("tool") == "gpu-check":
        yield from _gpu_check(record)
    elif "tables" in record:
        for one in record["tables"]:
            yield from _table(one["columns"], one["rows"], one["title"])
            if one.get("note"):
                yield from (one["note"], "")
    else:
        yield from _figures(record)


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> Iterator[str]:
    if title:
        yield from (f"**{title}**", "")
    yield "| " + " | ".join(column.strip() for column in columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(shown(value) for value in row) + " |"
    yield ""


def shown(value: Any) -> str:
    """A cell: numbers with as many digits as they deserve, a spread as median and range."""
    if isinstance(value, Mapping):
        median, low, high = (shown(value[name]) for name in ("median", "low", "high"))
        return f"{median} [{low}..{high}]" if low != high else median
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).replace("|", "\\|")
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    size = abs(value)
    return f"{value:.0f}" if size >= 1000 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def _bench(record: Record) -> Iterator[str]:
    extent = record["extent"]
    rounds = f"{extent['rounds']} round{'s' if extent['rounds'] > 1 else ''}"
    yield f"Answers of up to {record['tokens']} tokens, {rounds} in turns, {record['seconds']:.0f} s in all."
    if record["left_out"]:
        yield f"Left out for want of time: {record['left_out']}."
    passes = record["passes"]
    if passes:
        ratios = ", ".join(f"{n}: {ratio:.2f}" for n, ratio in passes["ratios"].items() if n != "1")
        yield (
            f"A pass over 1 token takes {1000 * passes['seconds']['1']['median']:.3g} ms after {passes['context']}; "
            f"over n tokens, times as much: {ratios}."
        )
    yield ""
    columns = ("method", "T", "α", "τ", "tok/s", "speed-up", "predicted", "predicted / measured", "ceiling")
    rows = [
        (
            row["label"], row["temperature"], row["alpha"], row["tokens_per_step"], row["tok_s"], row["speedup"],
            row["predicted"], None if row["error"] is None else 1 + row["error"], row["ceiling"],
        )
        for row in record["overall"]
    ]  # fmt: skip
    yield from _table(columns, rows)
    for temperature in dict.fromkeys(row["temperature"] for row in record["by_kind"]):
        yield from _by_kind(record["by_kind"], temperature)
    yield from (f"- {gone['label']}: not here: {gone['reason']}" for gone in record["missing"])


def _by_kind(rows: Sequence[Record], temperature: float) -> Iterator[str]:
    here = [row for row in rows if row["temperature"] == temperature and row["speedup"]]
    kinds = list(dict.fromkeys(row["kind"] for row in here))
    speedups = {(row["label"], row["kind"]): row["speedup"]["median"] for row in here}
    labels = dict.fromkeys(row["label"] for row in here)
    lines = [(label, *(speedups.get((label, kind)) for kind in kinds)) for label in labels]
    yield from _table(("method", *kinds), lines, f"speed-up by class, T = {temperature:g}")


def _audit(record: Record) -> Iterator[str]:
    yield from (record["verdict"], "")
    for name in ("greedy", "coupled"):
        rows = [(row["method"], row["drafted"], row["accepted"], len(row["forks"])) for row in record[name]]
        yield from _table(("method", "drafted", "accepted", "forks"), rows, name)


def _gpu_check(record: Record) -> Iterator[str]:
    for pair, found in record["pairs"].items():
        lines = [f"{stage:13} {stage_line(stage, figures)}" for stage, figures in found.items() if stage != "error"]
        yield from ("```", f"{pair}", *(line.rstrip() for line in lines), *table(pair, found), "```", "")


def _figures(record: Record) -> Iterator[str]:
    """Parts of named figures, as scripts/bench-chat writes them."""
    for part, found in record.get("parts", record).items():
        figures = found.get("figures") if isinstance(found, Mapping) else None
        if figures is None:
            continue
        rows = [
            (f["name"], {"median": f["median"], "low": f["least"], "high": f["most"]}, f["unit"], f["goal"])
            for f in figures
        ]
        yield from _table(("figure", "median [range]", "unit", "goal"), rows, part)
