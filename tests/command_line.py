"""The command line as its users meet it, in this process: streams that are files or terminals, and a hub of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest

from specchat.cli.app import app
from specchat.cli.environment import Environment
from specchat.fit import check
from specchat.fit.exact import ExactMeasure, FitUnavailable
from tests.catalogue.loopback_hub import LoopbackHub
from tests.tiny_model import write_model

TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
_VARIABLES = ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")


class Ended(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


class CtrlC(BytesIO):
    """A stderr that sends a signal once a text has been written to it."""

    number = signal.SIGINT

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text: bytes | None = text.encode()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        count = super().write(data)
        if self._text is not None and self._text in data:
            self._text = None
            os.kill(os.getpid(), self.number)
        return count


def run(
    *arguments: str | Path,
    typed: bytes | None = None,
    stderr: BytesIO | None = None,
    columns: int | None = None,
    terminal: bool = False,
) -> Ended:
    """Run `specchat ARGUMENTS`. `typed`: somebody sits at a terminal and has typed this. `terminal`: of stdout."""
    out, err = BytesIO(), stderr if stderr is not None else BytesIO()
    variables = {} if columns is None else {"COLUMNS": str(columns)}
    keyboard, end = os.openpty() if typed is not None else (-1, -1)
    stdin: BinaryIO = os.fdopen(end, "rb", closefd=False) if typed is not None else BytesIO()
    try:
        if typed:
            os.write(keyboard, typed)
        at_terminal = typed is not None
        environment = Environment(stdin, out, err, at_terminal, terminal, at_terminal or stderr is not None, variables)
        code = app([str(argument) for argument in arguments], obj=environment, standalone_mode=False)
    finally:
        stdin.close()
        for descriptor in (keyboard, end):
            if descriptor >= 0:
                os.close(descriptor)
    return Ended(int(code or 0), out.getvalue().decode(), err.getvalue().decode())


@dataclass
class Household:
    """A user's directories and the hub that the user's environment names."""

    folder: Path
    hub: LoopbackHub
    files: dict[str, Path] = field(default_factory=dict)

    def catalogue(self, text: str) -> None:
        """Write the user's own models.toml."""
        path = self.folder / "config" / "specchat" / "models.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    @property
    def cache(self) -> Path:
        """Of the hub's files."""
        return self.folder / "hf" / "hub"

    def model(self, name: str, *, layers: int = 2, padded_to: int = 0) -> Path:
        """A random model, with so many bytes that nothing reads behind it."""
        path = write_model(self.folder / name, layers=layers, template=TEMPLATE)
        if padded_to:
            with path.open("r+b") as file:
                file.truncate(padded_to)
        return path


def _no_probe() -> ExactMeasure:
    raise FitUnavailable("not asked here")


@contextmanager
def household(folder: Path, patch: pytest.MonkeyPatch, *, exactly: bool = False) -> Iterator[Household]:
    """Empty directories and a hub with `user/tiny` (two quantisations) and `user/draft`.

    Without `exactly` what fits is estimated: asking llama.cpp in a process of its own takes a second each time.
    """
    if not exactly:
        patch.setattr(check, "ExactMeasure", _no_probe)
    for name in (*_VARIABLES, "SPECCHAT_MODEL"):
        patch.delenv(name, raising=False)
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        patch.setenv(f"XDG_{name}_HOME", str(folder / name.lower()))
    patch.setenv("HF_HOME", str(folder / "hf"))
    patch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    with LoopbackHub() as hub:
        patch.setenv("HF_ENDPOINT", hub.endpoint)
        home = Household(folder, hub)
        one, two = home.model("tiny-Q4_K_M.gguf"), home.model("tiny-Q8_0.gguf", layers=3)
        hub.add("user/tiny", **{"tiny-Q4_K_M__gguf": one, "tiny-Q8_0__gguf": two})
        hub.add("user/draft", **{"draft-Q8_0__gguf": home.model("draft-Q8_0.gguf", layers=1)})
        home.catalogue(CATALOGUE)
        yield home


CATALOGUE = """
[pair]
name = "A pair"
rank = 950
license = "MIT"
target = { repo = "user/tiny", file = "tiny-Q4_K_M.gguf" }
draft = { repo = "user/draft", file = "draft-Q8_0.gguf" }

[other]
target = { repo = "user/tiny", quant = "Q8_0" }
draft = { repo = "user/draft", file = "draft-Q8_0.gguf" }
"""
