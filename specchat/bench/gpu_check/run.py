"""Makes the files, has each pair measured in a process of its own, and writes what is known after every stage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import specchat
from specchat.bench.gpu_check.model_file import NoRoom, write_model
from specchat.bench.gpu_check.report import stage_line
from specchat.bench.gpu_check.shapes import Plan, Shape, ShapePair
from specchat.bench.record import provenance
from specchat.fit.memory import nvidia_cards
from specchat.llama.whole_file import written_whole

_GRACE_S = 20.0
"""Past the deadline a pair has this long to end its stage; then it is ended."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done."""

    pairs: Sequence[ShapePair]
    plan: Plan
    directory: Path
    """Where the models are written."""
    json_path: Path
    keep: bool
    """Whether the models stay; those that are there already are used and stay in any case."""
    deadline: float
    """Seconds since the epoch."""


class Report:
    """The JSON object of the whole run; the file is whole after every change."""

    def __init__(self, order: Order) -> None:
        self._path = order.json_path
        self.data: dict[str, Any] = {
            **provenance("gpu-check", model="random weights", quantisation="as in the shapes"),
            "cards": [asdict(card) for card in nvidia_cards().values()],
            "plan": asdict(order.plan),
            "pairs": {},
        }
        self.write()

    def add(self, pair: str, name: str, figures: Any) -> None:
        """One stage of a pair, or its error."""
        self.data["pairs"].setdefault(pair, {})[name] = figures
        self.write()

    def write(self) -> None:
        """Whole or not at all."""
        with written_whole(self._path) as unfinished:
            unfinished.write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")


def run(order: Order, say: Callable[[str], None]) -> Report:
    """Measure all pairs; one that can't be measured leaves its `error` in the report. Raises OSError."""
    order.directory.mkdir(parents=True, exist_ok=True)
    report = Report(order)
    for pair in order.pairs:
        say(f"{pair.name}: {pair.target.name} with {pair.draft.name}")
        made: list[Path] = []
        try:
            files = [_provide(order, shape, seed, made, say) for seed, shape in enumerate((pair.target, pair.draft), 1)]
            report.add(pair.name, "files", {path.name: path.stat().st_size for path in files})
            for line in _measured(order, files):
                _take(report, pair.name, line, say)
        except NoRoom as error:
            _take(report, pair.name, {"error": str(error)}, say)
        finally:
            if not order.keep:
                for path in made:
                    path.unlink(missing_ok=True)
    return report


def _take(report: Report, pair: str, line: dict[str, Any], say: Callable[[str], None]) -> None:
    if "stage" in line:
        report.add(pair, line["stage"], {"took_s": line["seconds"], **line["figures"]})
        say(f"  {line['stage']:13} {line['seconds']:6.1f} s  {stage_line(line['stage'], line['figures'])}".rstrip())
    elif "error" in line:
        report.add(pair, "error", line["error"])
        say(f"  {line['error']}")
    else:
        say(f"  {line['say']}")


def _provide(order: Order, shape: Shape, seed: int, made: list[Path], say: Callable[[str], None]) -> Path:
    path = order.directory / f"random-{shape.name}-{shape.mix.lower()}.gguf"
    if path.exists():
        return path
    started = time.perf_counter()
    write_model(path, shape, seed)
    made.append(path)
    seconds, size = time.perf_counter() - started, path.stat().st_size
    say(f"  wrote {path.name}: {size / 1e9:.2f} GB in {seconds:.1f} s")
    return path


def _measured(order: Order, files: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """The lines of the child, and one more with an error where it ended without a word."""
    target, draft = map(str, files)
    wanted = {"target": target, "draft": draft, "plan": asdict(order.plan), "deadline": order.deadline}
    command = [sys.executable, "-P", "-m", "specchat.bench.gpu_check.child", json.dumps(wanted)]
    package = str(Path(specchat.__file__).resolve().parents[1])
    others = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *others])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=environment) as child:
        assert child.stdout is not None
        alarm = threading.Timer(max(0.0, order.deadline - time.time()) + _GRACE_S, child.kill)
        alarm.start()
        said = False
        try:
            for text in child.stdout:
                line = json.loads(text)
                said = "error" in line
                yield line
            status = child.wait()
        finally:
            alarm.cancel()
            child.kill()
    if status != 0 and not said:
        why = signal.Signals(-status).name if status < 0 else f"status {status}"
        yield {"error": f"The measuring process ended before it was done ({why}). What it found until then is kept."}
