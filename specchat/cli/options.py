"""What options mean, known without importing the rooms that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from specchat.cli.exit_codes import UsageError

_MOST_DRAFT_TOKENS: Final = 64
"""`specchat.engine.settings.MAX_DRAFT_TOKENS`, known here without importing numpy."""
_EXCLUSIVE: Final = (("as_json", "as_jsonl"), ("stats", "quiet"), ("as_jsonl", "no_stream"))


def draft_tokens(value: str | None) -> int | None:
    """The number given; None for auto. Raises UsageError."""
    if value in (None, "auto"):
        return None
    try:
        number = int(value or "")
    except ValueError:
        number = -1
    if not 0 <= number <= _MOST_DRAFT_TOKENS:
        raise UsageError(
            f"--draft-tokens is {value!r}, but it must be a number from 0 to {_MOST_DRAFT_TOKENS}, or auto."
        )
    return number


def refuse_contradictions(options: Mapping[str, Any]) -> None:
    """Raises UsageError where two options exclude each other."""
    for first, second in _EXCLUSIVE:
        if options[first] and options[second]:
            raise UsageError(f"{flag(first)} and {flag(second)} contradict each other: use one of the two.")
    if options["resume"] and options["chat"] is not None:
        raise UsageError("--continue takes the latest conversation and --chat names one: use one of the two.")


def flag(name: str) -> str:
    """An option as it is written."""
    return f"--{name.removeprefix('as_').replace('_', '-')}"
