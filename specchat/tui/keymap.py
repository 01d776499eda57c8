"""Which keys do what: the defaults of the registry, changed by `[keys]` of config.toml."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from textual.binding import Binding
from textual.widgets import TextArea

from specchat.tui.actions import ACTIONS, BY_ID, Action, nearest

Keys = Mapping[str, tuple[str, ...]]
"""The keys of each action by its id, those of the prompt included."""

OF_THE_PROMPT: Final[Keys] = {
    "send": ("enter",),
    "newline": ("ctrl+j", "shift+enter", "alt+enter"),
    "complete": ("tab",),
}
"""Keys that are bound in the prompt itself."""

_ALIKE: Final = {"ctrl+i": "Tab", "ctrl+m": "Enter", "ctrl+h": "Backspace", "ctrl+left_square_bracket": "Esc"}
_OF_EVERY_TEXT: Final = {
    key.strip(): binding.action.partition("(")[0].replace("_", " ")
    for binding in TextArea.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
}
"""Keys of the widget the prompt is, which come before the app's."""
_SIGNS: Final = {
    "left_square_bracket": "[", "right_square_bracket": "]", "escape": "esc", "question_mark": "?", "slash": "/",
    "up": "↑", "down": "↓", "left": "←", "right": "→",
}  # fmt: skip
_NAMES: Final = {"[": "left_square_bracket", "]": "right_square_bracket", "esc": "escape", "?": "question_mark"}
_BOUND_ELSEWHERE: Final = {
    "send": "prompt.send",
    "newline": "prompt.newline",
    "complete": "prompt.complete",
    "copy": "transcript.copy",
    "copy_code": "transcript.copy_code",
    "edit": "transcript.edit",
    "previous_branch": "transcript.branch_previous",
    "next_branch": "transcript.branch_next",
}
"""Prompt and transcript have these keys themselves, under other names."""


class KeymapError(ValueError):
    """`[keys]` of config.toml can't be meant as written; the message is a sentence for the user."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"config.toml, [keys]: {sentence}")


def resolve(chosen: Mapping[str, object] | None = None) -> Keys:
    """The keys of every action; raises KeymapError for an unknown action or a key that can't be told or is taken."""
    keys = {**OF_THE_PROMPT, **{action.id: action.keys for action in ACTIONS}}
    for id, value in (chosen or {}).items():
        if id not in keys:
            near = nearest(id, keys)
            raise KeymapError(f"there is no action {id!r}." + (f" Did you mean {near}?" if near else ""))
        keys[id] = _read(id, value)
    _refuse_clashes(keys)
    return keys


def _read(id: str, value: object) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise KeymapError(f'{id} must be a key such as "ctrl+r", or a list of keys.')
    keys = tuple(named(word.strip().lower()) for word in words if word.strip())
    for key in keys:
        if key in _ALIKE:
            raise KeymapError(f"{id} can't be on {key}, which terminals send as {_ALIKE[key]}. Choose another key.")
        if key in _OF_EVERY_TEXT and not (id in BY_ID and BY_ID[id].priority):
            what = _OF_EVERY_TEXT[key]
            raise KeymapError(f"{id} can't be on {key}, which the prompt uses for {what}. Choose another key.")
    return keys


def named(key: str) -> str:
    """A key as Textual names it: `[` is left_square_bracket."""
    *modifiers, last = key.split("+") if key != "+" else ["plus"]
    return "+".join([*modifiers, _NAMES.get(last, last)])


def _refuse_clashes(keys: Keys) -> None:
    taken: dict[str, str] = {}
    for id, own in keys.items():
        for key in own:
            if key in taken:
                raise KeymapError(f"{key} is on both {taken[key]} and {id}. Give one of them another key.")
            taken[key] = id


def shown(key: str) -> str:
    """A key as people read it: ^R, F2, [."""
    *modifiers, last = key.split("+")
    sign = _SIGNS.get(last, last.upper() if last.startswith("f") and last[1:].isdigit() else last)
    if modifiers == ["ctrl"]:
        return f"^{sign.upper()}"
    return "+".join([*modifiers, sign])


def keys_shown(id: str, keys: Keys) -> str:
    """All keys of an action, for the help."""
    return " ".join(shown(key) for key in keys[id])


def bindings_of(actions: Iterable[Action]) -> Iterator[Binding]:
    """Bindings of the app; an action without a key has one that no terminal sends, for the user to replace."""
    for action in actions:
        keys = ",".join(action.keys) or _unsent(action.id)
        yield Binding(keys, f"act({action.id!r})", action.name, show=False, priority=action.priority, id=action.id)


def keymap_of(chosen: Mapping[str, object], keys: Keys) -> dict[str, str]:
    """The user's changes as Textual takes them."""
    changed = {id: ",".join(keys[id]) or _unsent(id) for id in chosen}
    return changed | {_BOUND_ELSEWHERE[id]: value for id, value in changed.items() if id in _BOUND_ELSEWHERE}


def _unsent(id: str) -> str:
    return f"unbound_{id}"
