"""What the user submitted: a prompt, or a slash command."""

from __future__ import annotations

import re
from dataclasses import dataclass

from specchat.tui.actions import BY_SLASH, Action, nearest

_COMMAND = re.compile(r"/([a-z?]+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command and what follows it."""

    action: Action
    argument: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """Looks like a slash command, but there is none of that name: nothing is sent."""

    name: str
    sentence: str


Submission = Prompt | Command | Unknown


def read(text: str) -> Submission:
    """Tell prompts from commands: `/help`, but `//help` is the prompt `/help`, and `/usr/bin is…` a prompt too."""
    if text.startswith("//"):
        return Prompt(text[1:])
    match = _COMMAND.fullmatch(text.rstrip())
    if match is None:
        return Prompt(text)
    name, argument = match[1], (match[2] or "").strip()
    action = BY_SLASH.get(name)
    if action is not None:
        return Command(action, argument)
    near = nearest(name, BY_SLASH)
    hint = f" Did you mean /{near}?" if near else " F1 lists all commands."
    return Unknown(name, f"There is no command /{name}.{hint} To send it as text, begin with //.")
