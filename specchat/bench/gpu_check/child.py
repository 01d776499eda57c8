"""Measures one pair in a process of its own: a crash or a full card costs this pair only, and the card is free after.

The argument is one JSON object: target, draft, plan, deadline (seconds since the epoch). One JSON object a line comes
back on stdout for each stage that ends, and some between that only say how far it is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from specchat.bench.gpu_check import stages
from specchat.bench.gpu_check.rig import Rig, opened
from specchat.bench.gpu_check.shapes import Plan
from specchat.bench.gpu_check.stages import Figures
from specchat.fit.exact import FitUnavailable
from specchat.llama.errors import LlamaError
from specchat.llama.no_alloc import BreakdownMissing


class OutOfTime(Exception):
    """The deadline has passed."""


class Reporter:
    """Runs stages, sends what they found, keeps it for the stages after."""

    def __init__(self, answers: TextIO, deadline: float) -> None:
        self._answers = answers
        self._deadline = deadline
        self.found: dict[str, Figures] = {}

    def stage(self, name: str, run: Callable[[], Figures]) -> Figures:
        """Run one stage. Raises OutOfTime instead where none is left."""
        if time.time() > self._deadline:
            raise OutOfTime(f"The time was over before the stage {name}. Give it more with --minutes.")
        started = time.perf_counter()
        figures = run()
        self.found[name] = figures
        self.send({"stage": name, "seconds": time.perf_counter() - started, "figures": figures})
        return figures

    def send(self, line: dict[str, Any]) -> None:
        """One line to the parent."""
        self._answers.write(json.dumps(line) + "\n")
        self._answers.flush()

    def say(self, text: str) -> None:
        """One line for whoever watches."""
        self.send({"say": text})


def measure(reporter: Reporter, plan: Plan, target: Path, draft: Path) -> None:
    """All stages, the most telling first."""
    fit = reporter.stage("fit", lambda: stages.predicted_fit(plan, target, draft))
    if not fit["fits"]:
        raise LlamaError(f"It would not fit: {fit['total']:,} bytes are needed.")
    started = time.perf_counter()
    with opened(plan, target, draft) as rig:
        seconds = time.perf_counter() - started
        reporter.stage("machine", stages.machine_facts)
        reporter.stage("load", lambda: {"seconds": seconds, **_fit_held(rig, fit)})
        reporter.stage("target_curve", lambda: stages.target_curve(rig))
        reporter.stage("draft", lambda: stages.draft_costs(rig))
        reporter.stage("host", lambda: stages.host_times(rig))
        reporter.stage("oracle", lambda: stages.oracle(rig, reporter.found, reporter.say))
        reporter.stage("chosen", lambda: stages.chosen_depths(rig))
        reporter.stage("long_curve", lambda: stages.long_curve(rig))
        reporter.stage("after", lambda: {"cards_used": stages.cards_used()})


def _fit_held(rig: Rig, fit: Figures) -> Figures:
    try:
        return stages.held_fit(rig, fit)
    except BreakdownMissing as error:
        return {"unavailable": str(error)}


def main() -> None:
    """Measure; the last line says what went wrong, if anything did."""
    # The parent ends this process where it is interrupted itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Whatever a driver prints on stdout would stand between the answers.
    os.dup2(2, 1)
    wanted = json.loads(sys.argv[1])
    plan = Plan(**{**wanted["plan"], "depths": tuple(wanted["plan"]["depths"])})
    reporter = Reporter(answers, wanted["deadline"])
    try:
        measure(reporter, plan, Path(wanted["target"]), Path(wanted["draft"]))
    except (LlamaError, FitUnavailable, OutOfTime) as error:
        reporter.send({"error": str(error)})
        sys.exit(1)


if __name__ == "__main__":
    main()
