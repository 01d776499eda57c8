"""Figures as words and numbers for people."""

from __future__ import annotations

from datetime import datetime

from specchat.chat.conversation import one_line
from specchat.worker.messages import Figures


def count(number: int) -> str:
    """A number of tokens: 312, 3.1k, 16k."""
    if number < 1000:
        return str(number)
    thousands = number / 1000
    return f"{thousands:.1f}k" if thousands < 10 else f"{thousands:.0f}k"


def rate(tok_s: float) -> str:
    """Tokens a second with three digits."""
    return f"{tok_s:.0f}" if tok_s >= 100 else f"{tok_s:.1f}"


def draft_words(file: str) -> str:
    """What drafts, from its file's name: that of a cut copy would say nothing to anybody."""
    # Wanted once a model is loaded, and not for the first screen.
    from specchat.drafters.layer_skip import cut_draft_words

    return cut_draft_words(file) or one_line(file)


def answer_line(figures: Figures, compared: str = "") -> str:
    """The line under an answer; a speed-up only with the measured rate that it is over."""
    parts = [f"{figures.tokens} tok"]
    if figures.tok_s is not None:
        parts.append(f"{rate(figures.tok_s)} tok/s")
    if figures.speedup is not None and figures.plain_tok_s and figures.drafted:
        parts.append(f"{figures.speedup:.2f}× of {rate(figures.plain_tok_s)} measured")
    if figures.alpha is not None and figures.tokens_per_step is not None:
        parts.append(f"α {figures.alpha:.2f}{' of paths' if figures.trees else ''}")
        parts.append(f"τ {figures.tokens_per_step:.2f}")
    elif figures.tokens:
        parts.append("nothing drafted")
    if figures.ttft_s is not None:
        parts.append(f"first {figures.ttft_s:.2f} s")
    return " · ".join([*parts, compared] if compared else parts)


def compared(now: Figures, speculated: bool, before: Figures | None, before_speculated: bool) -> str:
    """How this answer's speed stands to the one before, where exactly one of the two was decoded plainly."""
    if before is None or speculated == before_speculated or not now.tok_s or not before.tok_s:
        return ""
    other = "drafting" if before_speculated else "plain"
    own = "drafting" if speculated else "plain"
    return f"{own}: {now.tok_s / before.tok_s:.2f}× the {rate(before.tok_s)} tok/s of the answer before ({other})"


def day(moment: datetime, now: datetime) -> str:
    """When a conversation was last written in: 14:05, yesterday, Mon 3 Nov, or 2025-11-03."""
    days = (now.date() - moment.date()).days
    if days <= 0:
        return f"{moment:%H:%M}"
    if days == 1:
        return "yesterday"
    return f"{moment:%d %b}" if moment.year == now.year else f"{moment:%Y-%m-%d}"
