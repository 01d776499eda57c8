"""What Tab makes of a slash command that was begun."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from specchat.tui.actions import BY_SLASH
from specchat.tui.choices import KEYS
from specchat.tui.faults import expected

_FIXED = {
    "spec": ("on", "off"),
    "think": ("on", "off", "auto"),
    "set": KEYS,
    "show": ("info", "params", "system", "template", "draft"),
    "export": ("md", "json"),
    "reload": ("smaller", "larger", "plain"),
    "copy": ("code",),
    "k": ("auto",),
    "trim": ("drop", "summarise", "all"),
    "bench": ("last",),
}


_BEGUN = re.compile(r"/([a-z?]*)(\s.*)?")


def hint(typed: str) -> str:
    """What the slash command that is being typed may become, or takes; empty where none is."""
    begun = _BEGUN.fullmatch(typed)
    if begun is None:
        return ""
    name, argument = begun[1], begun[2]
    actions = {action.id: action for other, action in BY_SLASH.items() if other == name}
    if argument is None:
        actions |= {action.id: action for other, action in BY_SLASH.items() if other.startswith(name)}
    if not name or not actions:
        return "tab completes · F1 lists all commands" if not name else ""
    if len(actions) == 1:
        (action,) = actions.values()
        return f"{' '.join(filter(None, (f'/{action.slash[0]}', action.argument)))} · {action.name}"
    return "  ".join(f"/{action.slash[0]}" for action in actions.values())


class Completion:
    """Completes names of commands, their words, models, themes and paths, as far as they are certain."""

    def __init__(self, models: Callable[[], Sequence[str]], themes: Callable[[], Iterable[str]]) -> None:
        self._models, self._themes = models, themes

    def __call__(self, text: str, position: int) -> tuple[int, str] | None:
        """From where to replace up to `position`, and by what; None where nothing is certain."""
        before = text[:position]
        if not before.startswith("/") or "\n" in before:
            return None
        name, space, argument = before[1:].partition(" ")
        if not space:
            whole = _certain(name, BY_SLASH)
            return None if whole is None else (1, whole)
        try:
            whole = self._argument(name, argument)
        except expected():
            # Nothing is certain then; the command itself says what is wrong.
            return None
        return None if whole is None else (len(name) + 2, whole)

    def _argument(self, name: str, argument: str) -> str | None:
        action = BY_SLASH.get(name)
        if action is None:
            return None
        if action.id == "file":
            return _path(argument)
        if action.id in ("model", "draft"):
            return _certain(argument, self._models())
        if action.id == "theme":
            return _certain(argument, self._themes())
        return _certain(argument, _FIXED.get(action.slash[0], ()))


def _certain(start: str, names: Iterable[str]) -> str | None:
    """What all names that begin so have in common, with a space after a single one; None if that is nothing new."""
    found = [name for name in names if name.startswith(start)]
    if not found:
        return None
    common = _common(found) + (" " if len(found) == 1 else "")
    return common if len(common) > len(start) else None


def _path(start: str) -> str | None:
    typed = Path(start).expanduser()
    directory = typed if start.endswith("/") or not start else typed.parent
    prefix = start[: len(start) - len("" if start.endswith("/") else typed.name)] if start else ""
    try:
        entries = [entry.name + ("/" if entry.is_dir() else "") for entry in directory.iterdir()]
    except OSError:
        return None
    hidden = "" if start.endswith("/") or not start else typed.name
    found = [name for name in sorted(entries) if name.startswith(hidden) and (hidden or not name.startswith("."))]
    common = _common(found)
    return prefix + common if len(common) > len(hidden) else None


def _common(names: Sequence[str]) -> str:
    """How all of them begin."""
    low, high = min(names, default=""), max(names, default="")
    length = next(
        (place for place, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high))
    )
    return low[:length]
