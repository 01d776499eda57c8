"""An answer: folded reasoning, Markdown as it is written, one line of numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.content import Content
from textual.message import Message
from textual.timer import Timer

from specchat.chat.text import visible
from specchat.tui.transcript.blocks import code_texts
from specchat.tui.transcript.growing import GrowingMarkdown
from specchat.tui.transcript.growing_lines import GrowingLines
from specchat.tui.transcript.line import EMPTY, Line, wrapped
from specchat.tui.transcript.line_view import LineView
from specchat.tui.transcript.provenance import Provenance
from specchat.tui.transcript.records import AnswerRecord
from specchat.tui.transcript.shown import shown
from specchat.worker.messages import Span

SHORTEST_PAUSE = 1 / 15
"""Seconds between two writes to the screen at least."""
_PAUSE_PER_COST = 3.0
"""A write is followed by a pause this many times as long as it and the drawing of it took: the keys come first."""

_ENDINGS = {
    "cancelled": "■ stopped",
    "length": "■ cut off: the context is full",
    "error": "✗ failed",
}


class Answer(LineView):
    """What the model says. Text is added with `append` at any rate; the screen follows at most 15 times a second."""

    DEFAULT_CSS: ClassVar[str] = Path(__file__).with_name("answer.tcss").read_text(encoding="utf-8")

    @dataclass
    class CodeClicked(Message):
        """The code block of this place, from 0, is to be copied."""

        answer: Answer
        place: int

    def __init__(self, record: AnswerRecord, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.record = record
        self._clock = clock
        self._live = not record.reason
        self._body = GrowingMarkdown()
        self._body.append(shown(record.text))
        if not self._live:
            self._body.finish()
        self._thoughts = GrowingLines(Content.styled("│ ", ".mark"))
        self._thoughts.append(shown(record.reasoning), ".quiet")
        self._thoughts_open = False
        self._thinking_since: float | None = None
        self._provenance: Provenance | None = None
        self._overlay = False
        self._status = ""
        self._timer: Timer | None = None
        self._next_write = 0.0

    @property
    def live(self) -> bool:
        """Whether more text may come."""
        return self._live

    def append(self, spans: Iterable[Span], tokens: int | None = None) -> None:
        """Add text; `tokens` is how many this answer has so far, reasoning included, where known."""
        record = self.record
        for span in spans:
            _keep(record.spans, span)
            if span.channel == "reasoning":
                self._think(span.text, tokens)
                continue
            if self._thinking_since is not None and span.text.strip():
                self._stop_thinking()
            record.text += span.text
            self._body.append(shown(span.text))
            if self._provenance is not None:
                self._provenance.append(span)
        self._status = ""
        self._write_soon()

    def finish(self, figures_line: str, reason: str, error: str = "") -> None:
        """The answer is over: its line of numbers, why (stop, length, cancelled, error), and what went wrong."""
        record = self.record
        record.figures_line, record.reason, record.error = figures_line, reason, error
        self._live = False
        self._status = ""
        self._stop_thinking()
        self._body.finish()
        self._write()

    def show_status(self, text: str) -> None:
        """Say what happens before the first word: a sentence, until text comes."""
        self._status = shown(text)
        self._write_soon()

    def show_branch(self, which: int, of: int) -> None:
        """Show which of how many siblings this is."""
        self.record.branch = (which, of)
        self._write()

    def show_thoughts(self, unfolded: bool) -> None:
        """Unfold or fold the reasoning."""
        self._thoughts_open = unfolded
        self._write()

    @property
    def thoughts_shown(self) -> bool:
        """Whether the reasoning is unfolded."""
        return self._thoughts_open

    def show_provenance(self, shown: bool) -> None:
        """Show where each token came from, instead of Markdown; or Markdown again."""
        if shown and self._provenance is None:
            self._provenance = Provenance(self.record.spans)
        self._overlay = shown
        self._write()

    @property
    def provenance_shown(self) -> bool:
        """Whether the overlay is on."""
        return self._overlay

    def copy_text(self) -> str:
        """The answer's Markdown, without the reasoning and without control characters."""
        return visible(self.record.text)

    def code_blocks(self) -> list[str]:
        """The text of each code block, in order."""
        return code_texts(visible(self.record.text))

    def lay_out(self, width: int) -> list[Line]:
        """Reasoning, text, how it ended, numbers."""
        parts = [self._thought_lines(width), self._text_lines(width), self._ending_lines(width)]
        lines: list[Line] = []
        for part in parts:
            if part:
                lines += [EMPTY, *part] if lines else part
        return lines or [Line(Content.styled("…", ".quiet"))]

    def _text_lines(self, width: int) -> Sequence[Line]:
        if self._overlay and self._provenance is not None:
            return self._provenance.lines(width)
        return self._body.lines(width) or (
            list(wrapped(Content.styled(self._status, ".quiet"), width)) if self._status else []
        )

    def _thought_lines(self, width: int) -> list[Line]:
        if not self.record.reasoning.strip():
            return []
        sign = "▾" if self._thoughts_open else "▸"
        head = Line(Content.styled(f"{sign} {self._thought_title()}"[:width], ".quiet"))
        return [head, *(self._thoughts.lines(width) if self._thoughts_open else ())]

    def _thought_title(self) -> str:
        record = self.record
        seconds = record.thought_s
        if self._thinking_since is not None:
            seconds = self._clock() - self._thinking_since
        known = [f"{record.thought_tokens} tok"] if record.thought_tokens is not None else []
        known += [f"{seconds:.1f} s"] if seconds is not None else []
        name = "thinking …" if self._thinking_since is not None else "thoughts"
        return f"{name} ({', '.join(known)})" if known else name

    def _ending_lines(self, width: int) -> list[Line]:
        record = self.record
        lines: list[Line] = []
        if not self._live and record.reason in _ENDINGS:
            said = self._ending() + (f": {shown(record.error)}" if record.error else "")
            lines += wrapped(Content.styled(said, ".warning"), width)
        which, of = record.branch
        branch = f"‹ {which}/{of} ›" if of > 1 else ""
        if not record.figures_line:
            return [*lines, Line(Content.styled(branch.rjust(width)[:width], ".quiet"))] if branch else lines
        figures = Content.styled(shown(record.figures_line), ".quiet")
        if branch and figures.cell_length + len(branch) + 2 <= width:
            gap = " " * (width - figures.cell_length - len(branch))
            return [*lines, Line(figures + Content.styled(gap + branch, ".quiet"))]
        lines += wrapped(figures, width)
        return [*lines, Line(Content.styled(branch.rjust(width), ".quiet"))] if branch else lines

    def _ending(self) -> str:
        most = self.record.max_tokens
        if self.record.reason == "length" and most is not None and self.record.tokens >= most:
            return f"■ cut off: max_tokens is {most:,}"
        return _ENDINGS[self.record.reason]

    def _think(self, text: str, tokens: int | None) -> None:
        if self._thinking_since is None and self.record.thought_s is None:
            self._thinking_since = self._clock()
        self.record.reasoning += text
        if tokens is not None:
            self.record.thought_tokens = tokens
        self._thoughts.append(shown(text), ".quiet")

    def _stop_thinking(self) -> None:
        if self._thinking_since is not None:
            self.record.thought_s = self._clock() - self._thinking_since
            self._thinking_since = None

    def _write_soon(self) -> None:
        """Write now, or when the pause after the last write is over."""
        if not self.is_mounted or self._timer is not None:
            return
        wait = self._next_write - time.monotonic()
        if wait <= 0:
            self._write()
        else:
            self._timer = self.set_timer(wait, self._write)

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        # Of this thread, so that neither waiting for the next frame nor another program counts.
        started = time.thread_time()
        self.changed()
        self._next_write = time.monotonic() + SHORTEST_PAUSE
        self.call_after_refresh(self._drawn, started)

    def _drawn(self, started: float) -> None:
        """What was written is on the screen: it was begun when this thread had computed for `started` seconds."""
        pause = _PAUSE_PER_COST * (time.thread_time() - started)
        self._next_write = max(self._next_write, time.monotonic() + pause)

    def on_mount(self) -> None:
        """Show what was added before there was a screen."""
        self._write()

    def on_click(self, event: events.Click) -> None:
        """A click on the reasoning's first row folds and unfolds it, one over a code block copies the block."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0 and self._thought_lines(self.content_size.width):
            event.stop()
            self.show_thoughts(not self._thoughts_open)
            return
        rows = self.rows()
        if offset.y < len(rows) and rows[offset.y].opens_code:
            event.stop()
            self.post_message(self.CodeClicked(self, sum(row.opens_code for row in rows[: offset.y])))


def _keep(spans: list[Span], span: Span) -> None:
    """Add a piece to those that are kept; it goes on with the last one if both have the same origin."""
    last = spans[-1] if spans else None
    if last is not None and (last.channel, last.origin) == (span.channel, span.origin):
        spans[-1] = Span(span.channel, last.text + span.text, span.origin)
    else:
        spans.append(span)
