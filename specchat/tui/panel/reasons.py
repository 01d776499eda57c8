"""Why the last step drafted as it did, as words."""

from __future__ import annotations

from dataclasses import dataclass

from specchat.worker.messages import Figures

_WORDS = {
    "offer pays": "copied text pays here",
    "draft pays": "the draft model pays here",
    "trial": "tried, to measure it",
    "nothing pays": "nothing pays here",
    "plain asked for": "plain, as asked for",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user chose, as far as it explains a step."""

    method: str = ""
    """As the worker reports it; empty while no model is open."""
    draft_tokens: int | None = None
    """None: chosen step by step."""
    speculate: bool = True


def source(figures: Figures, choice: Choice) -> str:
    """What the last step was: its depth and who drafted."""
    if not figures.depth:
        return "plain"
    return f"depth {figures.depth} · {figures.source or choice.method}"


def why(figures: Figures, choice: Choice) -> str:
    """Why it drafted so, as far as is known."""
    if not choice.speculate:
        return "plain, to compare"
    if choice.method == "none" or choice.draft_tokens == 0:
        return "no drafting chosen"
    if choice.draft_tokens is not None and choice.method != "auto":
        return f"{choice.draft_tokens} a step, as you chose"
    if not figures.choices:
        return "chosen from measured costs" if choice.method else ""
    most = max(figures.choices, key=lambda reason: figures.choices[reason])
    return f"mostly: {_WORDS.get(most, most)}"
