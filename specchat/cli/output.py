"""Everything that goes to stdout: the answer and one final newline, or JSON."""

from __future__ import annotations

import json
import re
import select
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from specchat.chat.text import visible
from specchat.cli.environment import Environment

if TYPE_CHECKING:
    # It brings numpy, and the chat's first paint would wait for that.
    from specchat.chat.turn import Progress

# JSON escapes C0 itself; DEL and C1 (ESC's one-byte relatives) would reach a terminal as they are.
_STEERING = re.compile("[\x7f-\x9f]")


class ReaderClosed(Exception):
    """Whoever read our stdout has gone; nothing more is to be computed."""


class Stdout:
    """Bytes to stdout, at once; raises ReaderClosed when nobody reads any more."""

    def __init__(self, environment: Environment) -> None:
        self._stream = environment.stdout

    def write(self, text: str) -> None:
        """Write and flush."""
        try:
            self._stream.write(text.encode("utf-8", errors="replace"))
            self._stream.flush()
        except BrokenPipeError:
            raise ReaderClosed from None

    def reader_is_gone(self) -> bool:
        """Whether the reading end of a pipe was closed, without writing to it."""
        try:
            poll = select.poll()
            poll.register(self._stream.fileno(), 0)
            return any(event & select.POLLERR for _, event in poll.poll(0))
        except (OSError, ValueError, AttributeError):
            # No descriptor behind it, or no poll() on this system: the next write will tell.
            return False


class Output(Protocol):
    """One way to print an answer."""

    def progress(self, progress: Progress) -> None:
        """Take what a step added."""

    def end(self, report: Mapping[str, Any]) -> None:
        """Take the finished answer."""


class TextOutput:
    """The answer's text as it is written, then one newline."""

    def __init__(self, stdout: Stdout, *, stream: bool) -> None:
        self._stdout = stdout
        self._stream = stream
        self._held = ""

    def progress(self, progress: Progress) -> None:
        """Print the answer's new text, all but line ends it may turn out to end with."""
        self._held += visible("".join(text for channel, text in progress.parts if channel == "answer"))
        ready = self._held.rstrip("\n")
        if self._stream and ready:
            self._held = self._held[len(ready) :]
            self._stdout.write(ready)

    def end(self, report: Mapping[str, Any]) -> None:
        """Print what is left and the final newline."""
        self._stdout.write(self._held.rstrip("\n") + "\n")


class JsonOutput:
    """One JSON object at the end."""

    def __init__(self, stdout: Stdout) -> None:
        self._stdout = stdout

    def progress(self, progress: Progress) -> None:
        """Nothing until the end."""

    def end(self, report: Mapping[str, Any]) -> None:
        """Print the object."""
        self._stdout.write(as_json(report) + "\n")


class JsonLinesOutput:
    """One JSON object a line: `start`, `tokens` for each step, `end`."""

    def __init__(self, stdout: Stdout, model: str) -> None:
        self._stdout = stdout
        self._stdout.write(as_json({"event": "start", "schema": 1, "model": model}) + "\n")

    def progress(self, progress: Progress) -> None:
        """Print the step's tokens, where each came from, and the text that became certain."""
        step = progress.step
        self._stdout.write(
            as_json(
                {
                    "event": "tokens",
                    "token_ids": list(step.tokens) if step else [],
                    "origins": list(step.origins) if step else [],
                    "text": _joined(progress, "answer"),
                    "reasoning": _joined(progress, "reasoning"),
                }
            )
            + "\n"
        )

    def end(self, report: Mapping[str, Any]) -> None:
        """Print the object that `--json` prints, marked as the last event."""
        self._stdout.write(as_json({"event": "end", **report}) + "\n")


def as_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON that no terminal can be steered with."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _joined(progress: Progress, channel: str) -> str:
    return "".join(text for kind, text in progress.parts if kind == channel)
