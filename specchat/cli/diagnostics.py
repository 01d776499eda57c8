"""Everything that goes to stderr: errors, notes, reasoning, statistics, progress."""

from __future__ import annotations

import contextlib

from specchat.chat.text import visible
from specchat.cli.environment import Environment

_DIM, _RED, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"
_CLEAR_LINE = "\r\x1b[K"


class Diagnostics:
    """Writes to stderr; a quiet run keeps errors only."""

    def __init__(self, environment: Environment, *, quiet: bool = False) -> None:
        self._environment = environment
        self._quiet = quiet
        self._in_reasoning = False
        self._in_progress = False

    def error(self, sentence: str) -> None:
        """Say what ended the run."""
        self._line(f"specchat: {sentence}", _RED)

    def note(self, sentence: str) -> None:
        """Say something the user should know."""
        if not self._quiet:
            self._line(f"specchat: {sentence}", _DIM)

    def ask(self, question: str) -> None:
        """Put a question; the answer is typed behind it."""
        self._end_progress()
        self.end_reasoning()
        self._write(visible(question))

    def statistics(self, line: str) -> None:
        """Print the statistics line."""
        self._line(line, _DIM)

    def reasoning(self, text: str) -> None:
        """Stream what the model thinks before it answers."""
        if not self._quiet and text:
            self._end_progress()
            self._in_reasoning = True
            self._write(self._styled(visible(text), _DIM))

    def end_reasoning(self) -> None:
        """Close the reasoning, if any was shown, with a line's end."""
        if self._in_reasoning:
            self._in_reasoning = False
            self._write("\n")

    def progress(self, text: str) -> None:
        """Replace the current status line; shown on a terminal only."""
        if self._environment.stderr_is_terminal and not self._quiet and self._environment.colour:
            self._in_progress = True
            self._write(_CLEAR_LINE + self._styled(text, _DIM))

    def end_progress(self) -> None:
        """Take the status line away."""
        self._end_progress()

    def _end_progress(self) -> None:
        if self._in_progress:
            self._in_progress = False
            self._write(_CLEAR_LINE)

    def _line(self, text: str, style: str) -> None:
        self._end_progress()
        self.end_reasoning()
        # One line a message, also when a file name or a model's words bring their own line breaks.
        shown = " ".join(visible(text).split("\n"))
        self._write(self._styled(shown, style) + "\n")

    def _styled(self, text: str, style: str) -> str:
        return f"{style}{text}{_PLAIN}" if self._environment.colour else text

    def _write(self, text: str) -> None:
        # A closed stderr must not cost the answer.
        with contextlib.suppress(OSError, ValueError):
            self._environment.stderr.write(text.encode("utf-8", errors="replace"))
            self._environment.stderr.flush()
