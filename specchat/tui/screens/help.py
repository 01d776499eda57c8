"""Every key and command, as the registry has them."""

from __future__ import annotations

from textwrap import wrap
from typing import Final

from textual.content import Content
from textual.widgets import Static

from specchat.tui.actions import ACTIONS, Action, Group
from specchat.tui.keymap import Keys, keys_shown
from specchat.tui.screens.reading import Reading

_WIDE: Final = 72
_OF_THE_PROMPT: Final = (("send", "send"), ("newline", "new line"), ("complete", "complete a command, a model, a path"))
_IN_PROMPT: Final = (
    ("↑ ↓", "on the first and last line: prompts written before"),
    ("shift+tab", "to the messages; there j and k move, space unfolds thoughts"),
    ("//…", "sends a prompt that begins with a slash"),
    ("pgup pgdn", "scroll the conversation"),
    ("end", "at the end of a line: to the end of the conversation, and follow the answer again"),
)


class Help(Reading):
    """Keys and commands, by what they are about."""

    def __init__(self, keys: Keys) -> None:
        super().__init__("Keys and commands", "")
        self._keys = keys

    def on_resize(self) -> None:
        """Lay the text out for the width there is."""
        scroll = self.query_one("#text")
        self.query_one("#text Static", Static).update(help_text(self._keys, scroll.scrollable_content_region.width))


def help_text(keys: Keys, width: int) -> Content:
    """One block a group, one entry an action, not wider than `width`."""
    own = [(keys_shown(id, keys), words) for id, words in _OF_THE_PROMPT]
    pairs = Content("\n").join(_pair(key, what, width) for key, what in (*own, *_IN_PROMPT))
    blocks = [_heading("In the prompt") + pairs]
    for group in Group:
        entries = [_entry(action, keys, width) for action in ACTIONS if action.group is group]
        blocks.append(_heading(group.value) + Content("\n").join(entries))
    return Content("\n\n").join(blocks)


def _heading(words: str) -> Content:
    return Content.styled(f"{words}\n", "bold $secondary")


def _pair(key: str, what: str, width: int) -> Content:
    if width < _WIDE:
        return Content.assemble((key, "bold $primary"), "\n", _hanging(what, 2, width))
    return Content.assemble((f"{key:<28}", "bold $primary"), (_hanging(what, 28, width).lstrip(), "$foreground"))


def _hanging(words: str, indent: int, width: int) -> str:
    """Words in lines that all begin `indent` columns in."""
    space = " " * indent
    return "\n".join(wrap(words, max(width, indent + 10), initial_indent=space, subsequent_indent=space))


def _entry(action: Action, keys: Keys, width: int) -> Content:
    slash = ", ".join(f"/{name}" for name in action.slash)
    ways = f"{slash} {action.argument}".strip()
    key = keys_shown(action.id, keys)
    description = (_hanging(action.description, 9, width), "$foreground-muted")
    if width < _WIDE:
        head = Content.assemble((f"{key} ".lstrip(), "bold $primary"), (ways, "$primary"))
        return Content("\n").join(
            [head, Content.assemble((_hanging(action.description, 2, width), "$foreground-muted"))]
        )
    gap = " " * max(width - 9 - len(action.name) - len(ways), 2)
    return Content.assemble(
        (f"{key:<9}", "bold $primary"), (action.name + gap, "bold $foreground"), (ways, "$primary"), "\n", description
    )
