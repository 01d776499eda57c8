"""What an engine would allocate, to the byte: llama.cpp's own allocator is asked, in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import specchat
from specchat.catalogue.head_kind import HeadKind
from specchat.fit.demand import Bytes, Demand, ModelDemand
from specchat.fit.request import FitRequest
from specchat.fit.search import largest
from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.gpus import Gpu

_PATIENCE_S = 30.0
"""A driver that wakes up takes seconds; past this the formula answers."""


class FitUnavailable(Exception):
    """llama.cpp's allocator can't be asked here; the formula can. The message says why."""


@dataclass(frozen=True, slots=True)
class Devices:
    """What the installed llama.cpp computes on."""

    offloads: bool
    """Whether layers go to a GPU."""
    gpus: tuple[Gpu, ...]
    heads: bool = True
    """Whether it can draft with trained heads."""


class ExactMeasure:
    """A running probe: the first question of a model costs its vocabulary's reading, each further one milliseconds.

    Raises FitUnavailable where the probe can't be started.
    """

    def __init__(self) -> None:
        self._devices: Devices | None = None
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "specchat.fit.probe"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                env=_environment(),
            )
        except OSError as error:
            raise FitUnavailable(f"The probe could not be started: {error.strerror}.") from None

    def devices(self) -> Devices:
        """What llama.cpp computes on, with its view of the memory; raises FitUnavailable."""
        if self._devices is None:
            try:
                answer = self._ask({"ask": "devices"})
            except LlamaError as error:
                raise FitUnavailable(str(error)) from None
            self._devices = Devices(answer["offloads"], tuple(Gpu(**gpu) for gpu in answer["gpus"]), answer["heads"])
        return self._devices

    def measure(self, target: Path, draft: Path | None, request: FitRequest, head: HeadKind | None = None) -> Demand:
        """What the pair takes. Files may be headers stretched to the size of the whole.

        `head`: what kind of trained head `draft` is; an MTP head without a `draft` is in the target's file.
        Raises FitUnavailable, ModelUnusable for a file that can't be loaded, and LlamaError for a context that
        llama.cpp refuses, such as a quantised cache of rows that no block divides.
        """
        if request.on_device != self.devices().offloads:
            side = "no GPU" if request.on_device else "a GPU"
            raise FitUnavailable(f"The installed llama.cpp computes on {side}, which is not what is planned for.")
        paths = {"target": str(target), "draft": None if draft is None else str(draft)}
        answer = self._ask({"ask": "measure", **paths, "request": asdict(request), "head": head})
        return Demand(
            target=_demand(answer["target"]),
            draft=None if answer["draft"] is None else _demand(answer["draft"]),
            context=request.context,
            exact=True,
            on_device=request.on_device,
            head=head,
        )

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        alarm = threading.Timer(_PATIENCE_S, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            raise FitUnavailable(f"The probe ended without an answer ({_reason(process)}).")
        answer: dict[str, Any] = json.loads(line)
        _raise_error(answer)
        return answer

    def close(self) -> None:
        """End the probe. It owns nothing but memory, so nobody waits for it to tidy up."""
        process = self._process
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            # What was still to be written to it is lost with it.
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _environment() -> dict[str, str]:
    """The probe imports this very package, not what happens to lie in the working directory."""
    package = str(Path(specchat.__file__).resolve().parents[1])
    others = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    # At an assertion ggml would start a debugger to print where it was: seconds that nobody reads.
    return {**os.environ, "PYTHONPATH": os.pathsep.join([package, *others]), "GGML_NO_BACKTRACE": "1"}


def _reason(process: subprocess.Popen[str]) -> str:
    try:
        status = process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        return "no answer in time"
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _raise_error(answer: dict[str, Any]) -> None:
    kinds: dict[str, type[Exception]] = {
        "unavailable": FitUnavailable,
        "unusable": ModelUnusable,
        "refused": LlamaError,
    }
    if "error" in answer:
        raise kinds[answer["error"]](answer["sentence"])


def _demand(sides: dict[str, dict[str, int]]) -> ModelDemand:
    return ModelDemand(device=Bytes(**sides["device"]), host=Bytes(**sides["host"]))


def measure(target: Path, draft: Path | None, request: FitRequest) -> Demand:
    """What the pair takes; raises as `ExactMeasure.measure` does."""
    with ExactMeasure() as exact:
        return exact.measure(target, draft, request)


def largest_context(target: Path, draft: Path | None, request: FitRequest, usable_bytes: int) -> int:
    """The largest context of the pair within `usable_bytes`, at most what the target was trained for; 0: none.

    Raises as `ExactMeasure.measure` does.
    """
    longest = read_header(target).number("context_length") or request.context
    with ExactMeasure() as exact:
        return largest(
            lambda cells: exact.measure(target, draft, replace(request, context=cells)).total <= usable_bytes, longest
        )
