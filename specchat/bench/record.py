"""What was measured, with all that is needed to measure it again: the records that BENCHMARKS.md is made from."""

from __future__ import annotations

import json
import os
import platform
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import psutil

from specchat import __version__
from specchat.llama.library import library
from specchat.llama.model import Model
from specchat.llama.whole_file import written_whole

_PACKAGES: Final = ("llama-cpp-python", "xllamacpp", "numpy", "textual")
_NOT_TOLD: Final = ("--json", "--plot", "--directory", "-o", "--output")
"""Options whose value says where something goes, and nothing of what was measured."""
# Before the measuring, whose own load would be told otherwise.
_STARTED: Final = datetime.now(UTC)
_LOAD: Final = psutil.getloadavg()[0]

Spread = dict[str, float]
"""`median`, `low` and `high`."""
Value = str | float | int | None | Spread


def spread_of(values: Iterable[float]) -> Spread | None:
    """Of `values`; None without any."""
    held = sorted(values)
    return {"median": statistics.median(held), "low": held[0], "high": held[-1]} if held else None


def provenance(
    tool: str,
    *,
    model: str = "",
    quantisation: str = "",
    threads: int | None = None,
    flash_attention: str = "",
) -> dict[str, Any]:
    """The head of every record: what measured, when, with which command, on what."""
    return {
        "schema": 1,
        "tool": tool,
        "measured": _STARTED.isoformat(timespec="minutes"),
        "command": command(sys.argv),
        "machine": machine(),
        "versions": versions(),
        "model": model,
        "quantisation": quantisation,
        "threads": threads,
        "flash_attention": flash_attention,
    }


def quantisation_of(model: Model) -> str:
    """What its file calls itself, such as Q4_K_M; empty where it doesn't say."""
    from gguf import LlamaFileType

    number = model.header.metadata.get("general.file_type")
    try:
        return str(LlamaFileType(number).name).removeprefix("MOSTLY_").removeprefix("ALL_")
    except ValueError:
        return ""


def flash_attention_here() -> str:
    """The kind that contexts have unless told otherwise."""
    return "auto" if library().offloads else "off"


def machine() -> dict[str, Any]:
    """The computer, in words; `load` is how many processes wanted to run at the start."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": round(_LOAD, 2),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def versions() -> dict[str, str]:
    """Of the packages that a figure may depend on, where they are installed."""
    found = {"specchat": __version__}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def command(arguments: Sequence[str]) -> str:
    """A command line as it is written in a shell, without the options that only say where results go."""
    program = Path(arguments[0])
    kept, skipping = list[str](), False
    # There alone it has no value.
    flags = ("--json",) if "audit" in arguments[1:2] else ()
    for argument in arguments[1:]:
        if argument in flags:
            continue
        if not skipping and argument not in _NOT_TOLD and not argument.startswith(tuple(f"{o}=" for o in _NOT_TOLD)):
            kept.append(argument)
        skipping = not skipping and argument in _NOT_TOLD
    name = "specchat" if program.name == "__main__.py" else program.name
    return shlex.join([f"scripts/{name}" if program.parent.name == "scripts" else name, *kept])


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a record: numbers as numbers, a spread as its three."""

    title: str
    columns: tuple[str, ...]
    rows: list[list[Value]] = field(default_factory=list)
    note: str = ""

    def add(self, *row: Value) -> None:
        """One line; raises ValueError where it has another number of cells than there are columns."""
        if len(row) != len(self.columns):
            raise ValueError(f"{len(row)} cells in a table of {len(self.columns)} columns")
        self.rows.append(list(row))


def write_record(path: Path | None, head: dict[str, Any], tables: Sequence[Table]) -> None:
    """Write `head` (`provenance`) and the tables to `path`, whole or not at all; None writes nothing."""
    if path is not None:
        write_json(path, {**head, "tables": [asdict(table) for table in tables]})


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write `data`, whole or not at all. Raises OSError."""
    with written_whole(path) as unfinished:
        unfinished.write_text(json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
