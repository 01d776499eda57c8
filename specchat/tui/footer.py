"""The last line: the keys that make sense now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from specchat.tui.actions import ACTIONS, Action, Situation
from specchat.tui.keymap import Keys, shown

_SEPARATOR: Final = "   "
_WHILE_WRITING: Final = ("stop", "panel", "provenance", "palette", "help")
_ON_MESSAGE: Final = (
    "copy",
    "copy_code",
    "edit",
    "retry",
    "previous_branch",
    "next_branch",
    "branch",
    "open_message",
    "delete_message",
    "help",
)
_IN_PROMPT: Final = ("chats", "new", "retry", "model", "panel", "palette", "help")
_OF_THE_PROMPT: Final = (("send", "send"), ("newline", "new line"))
_WITHOUT_ROOM: Final = ("trim", "new", "palette", "help")
_WITHOUT_MODEL: Final = ("reload", "model", "palette", "help")
_MOST_NEEDED: Final = ("stop", "trim", "send", "help", "palette", "reload", "copy", "edit", "model")
"""What stays when room is short, in this order."""


class Footer(Widget):
    """Keys and what they do, for the present situation."""

    situation: reactive[Situation] = reactive(Situation())
    keys: reactive[Keys] = reactive(dict)

    def render(self) -> Content:
        """The line, as wide as there is room."""
        return footer_line(self.situation, self.keys, self.size.width - 2)


def offered(situation: Situation) -> list[Action]:
    """The actions to show, in their order."""
    if situation.failed:
        ids: tuple[str, ...] = _WITHOUT_MODEL
    elif situation.generating:
        ids = _WHILE_WRITING
    elif situation.no_room and not situation.on_message:
        ids = _WITHOUT_ROOM
    else:
        ids = _ON_MESSAGE if situation.on_message and situation.has_messages else _IN_PROMPT
    order: Callable[[Action], int] = lambda action: ids.index(action.id)  # noqa: E731
    return sorted((a for a in ACTIONS if a.id in ids and a.when(situation)), key=order)


def footer_line(situation: Situation, keys: Keys, width: int) -> Content:
    """The keys that fit in `width` cells; the most needed stay."""
    shown_actions = [action for action in offered(situation) if keys.get(action.id)]
    parts = {action.id: _part(action, keys) for action in shown_actions}
    if not situation.generating and not situation.on_message:
        own = [(id, words) for id, words in _OF_THE_PROMPT if keys.get(id)]
        parts = {id: _words(shown(keys[id][0]), words) for id, words in own} | parts
    while parts and _length(list(parts.values())) > width:
        del parts[_least_needed(list(parts))]
    return Content(_SEPARATOR).join(parts.values())


def _part(action: Action, keys: Keys) -> Content:
    return _words(shown(keys[action.id][0]), action.short or action.name.lower())


def _words(key: str, what: str) -> Content:
    return Content.assemble((key, "bold $primary"), (f" {what}", "$foreground-muted"))


def _length(parts: list[Content]) -> int:
    return sum(part.cell_length for part in parts) + len(_SEPARATOR) * (len(parts) - 1)


def _least_needed(ids: list[str]) -> str:
    rest = [id for id in ids if id not in _MOST_NEEDED]
    if rest:
        return rest[-1]
    return max(ids, key=_MOST_NEEDED.index)
