"""The one list of what the chat can do: keys, slash commands, command palette and help are all read from it.

Importing it costs nothing: a handler is named here and loaded when it is first used.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

Handler = Callable[["ChatApp", str], Awaitable[None]]
"""Does an action; the text is what the user wrote after the slash command, or empty."""


class Group(StrEnum):
    """The headings of the help."""

    ANSWER = "Answering"
    MESSAGE = "On a message"
    CHAT = "Conversations"
    SETTINGS = "Settings"
    MODEL = "Model and drafting"
    VIEW = "Looking"
    PROGRAM = "Program"


@dataclass(frozen=True, slots=True)
class Situation:
    """What is going on, as far as it decides which actions make sense."""

    generating: bool = False
    loaded: bool = False
    failed: bool = False
    """No model is open, and none is being opened."""
    has_messages: bool = False
    on_message: bool = False
    """The transcript has the focus, so that single letters are commands."""
    no_room: bool = False
    """The conversation no longer fits the context, and ways out are offered."""
    prompt_empty: bool = True
    in_prompt: bool = True


Condition = Callable[[Situation], bool]


def _always(_now: Situation) -> bool:
    return True


def _generating(now: Situation) -> bool:
    return now.generating


def _quiet_with_messages(now: Situation) -> bool:
    return now.has_messages and not now.generating


def _has_messages(now: Situation) -> bool:
    return now.has_messages


def _on_message(now: Situation) -> bool:
    return now.on_message and now.has_messages


def _on_quiet_message(now: Situation) -> bool:
    return _on_message(now) and not now.generating


def _ready_and_quiet(now: Situation) -> bool:
    return now.loaded and not now.generating


def _room_can_be_made(now: Situation) -> bool:
    return _ready_and_quiet(now) and now.has_messages


def _nothing_written(now: Situation) -> bool:
    return now.failed or not now.generating


def _in_empty_prompt(now: Situation) -> bool:
    return now.in_prompt and now.prompt_empty


@dataclass(frozen=True, slots=True)
class Action:
    """Something the user can ask for."""

    id: str
    name: str
    description: str
    handler: str
    """Module and function under `specchat.tui.handlers`."""
    group: Group
    keys: tuple[str, ...] = ()
    slash: tuple[str, ...] = ()
    """Names after the slash; the first is the one shown."""
    argument: str = ""
    """What may follow the slash command, for the help."""
    when: Condition = _always
    slash_when: Condition = _always
    """When the slash command makes sense: it is written in the prompt, where no message has the focus."""
    short: str = ""
    """The word in the line of keys; empty where the action does not stand there."""
    priority: bool = False
    """Whether its keys come before those of the widget with the focus."""

    def load(self) -> Handler:
        """The function that does it."""
        module, name = self.handler.split(".")
        handler: Handler = getattr(importlib.import_module(f"specchat.tui.handlers.{module}"), name)
        return handler


def _act(
    id: str,
    name: str,
    handler: str,
    group: Group,
    description: str,
    *,
    keys: str = "",
    slash: str = "",
    argument: str = "",
    when: Condition = _always,
    slash_when: Condition | None = None,
    short: str = "",
    priority: bool = False,
) -> Action:
    return Action(
        id,
        name,
        description,
        handler,
        group,
        tuple(keys.split()),
        tuple(slash.split()),
        argument,
        when,
        slash_when or when,
        short,
        priority,
    )


_A, _M, _C, _S, _D, _V, _P = Group
ACTIONS: Final[tuple[Action, ...]] = (
    _act("stop", "Stop the answer", "talking.stop", _A,
         "Stops at any moment, also while the prompt is read. What was written stays.",
         keys="escape", slash="stop", slash_when=_generating, short="stop"),
    _act("retry", "Answer again", "talking.retry", _A,
         "Writes another answer to the same question; the old one stays as a branch.",
         keys="ctrl+r", slash="retry regen", when=_quiet_with_messages, short="again"),
    _act("continue", "Go on with the answer", "talking.go_on", _A,
         "Asks the model to go on where the last answer ended.",
         slash="continue", when=_quiet_with_messages),
    _act("undo", "Take back the last question", "talking.undo", _A,
         "Puts the last question back into the prompt; the branch stays.", slash="undo", when=_quiet_with_messages),
    _act("speculation", "Drafting on or off for the next answer", "talking.speculation", _A,
         "Answers the next question plainly (or with drafts again) and compares the two speeds.",
         keys="ctrl+s", slash="spec", argument="on|off", short="draft on/off"),
    _act("think", "Thinking", "settings.think", _A,
         "Whether models that can think before they answer do so: on, off, or as the model wants (auto).",
         keys="ctrl+t", slash="think", argument="on|off|auto"),
    _act("trim", "Make room in the context", "room.trim", _A,
         "Lets the model leave the oldest messages unread, or read its own summary of them; all takes that back.",
         keys="f8", slash="trim", argument="[drop|summarise|all]", when=_room_can_be_made, short="make room"),
    _act("editor", "Write the prompt in your editor", "writing.edit_prompt", _A,
         "Opens the prompt in $VISUAL or $EDITOR.", keys="ctrl+g", slash="editor", when=_nothing_written),
    _act("file", "Attach a text file", "writing.attach", _A,
         "Sends the text of a file with the next question; without a path takes them back.",
         slash="file read", argument="[PATH]"),

    _act("previous_message", "Message above", "reading.previous_message", _M,
         "Moves to the message above.", keys="alt+up", slash="up", when=_has_messages),
    _act("next_message", "Message below", "reading.next_message", _M,
         "Moves to the message below.", keys="alt+down", slash="down", when=_has_messages),
    _act("copy", "Copy the message", "copying.copy", _M,
         "Copies the message (of /copy: the last answer, the N-th message, or the last code block).",
         keys="y", slash="copy", argument="[N|code]", when=_on_message, slash_when=_has_messages, short="copy"),
    _act("copy_code", "Copy a code block", "copying.copy_code", _M,
         "Copies the next code block of the message; again: the one after it.",
         keys="c", slash="code", when=_on_message, slash_when=_has_messages, short="code"),
    _act("edit", "Edit and send again", "talking.edit", _M,
         "Puts the question into the prompt; sending it begins a new branch.",
         keys="e", slash="edit", when=_on_quiet_message, slash_when=_quiet_with_messages, short="edit"),
    _act("branch", "Go on from here", "talking.branch", _M,
         "The next question follows this message; what came after it stays as a branch.",
         keys="b", slash="branch", when=_on_quiet_message, slash_when=_quiet_with_messages, short="go on from here"),
    _act("previous_branch", "Branch before", "talking.previous_branch", _M,
         "Shows the version of this message that was written before.",
         keys="left_square_bracket", slash="prev", when=_on_quiet_message, slash_when=_quiet_with_messages,
         short="older"),
    _act("next_branch", "Branch after", "talking.next_branch", _M,
         "Shows the version of this message that was written after.",
         keys="right_square_bracket", slash="next", when=_on_quiet_message, slash_when=_quiet_with_messages,
         short="newer"),
    _act("open_message", "Open the message in your editor", "writing.open_message", _M,
         "Opens the text in $VISUAL or $EDITOR, to read or to save elsewhere.",
         keys="o", slash="open", when=_on_quiet_message, short="open"),

    _act("delete_message", "Delete the message", "deleting.delete_message", _M,
         "Deletes it and what follows it, after asking; other branches stay.",
         keys="d", slash="remove", when=_on_quiet_message, slash_when=_quiet_with_messages, short="delete"),

    _act("new", "New conversation", "chats.new", _C, "Begins an empty conversation; the present one is kept.",
         keys="ctrl+n", slash="new clear", short="new"),
    _act("chats", "Open or search conversations", "chats.browse", _C,
         "Lists past conversations and finds words in them.", keys="ctrl+o", slash="chats", argument="[WORDS]",
         short="chats"),
    _act("rename", "Rename this conversation", "chats.rename", _C, "Gives the conversation another title.",
         slash="rename save", argument="[TITLE]", when=_has_messages),
    _act("delete", "Delete this conversation", "deleting.delete", _C, "Deletes it with all its branches, after asking.",
         slash="delete", when=_quiet_with_messages),
    _act("export", "Export this conversation", "chats.export", _C,
         "Writes it to a file: Markdown as it stands on the screen, JSON with all branches and figures.",
         slash="export", argument="[md|json] [PATH]", when=_has_messages),

    _act("settings", "System prompt and sampling", "settings.open_settings", _S,
         "How answers are drawn, and what the model is told first.", keys="f5", slash="settings"),
    _act("system", "System prompt", "settings.system", _S,
         "Tells the model how to behave; without a text it opens the settings.", slash="system", argument="[TEXT]"),
    _act("set", "Set a sampling parameter", "settings.set_value", _S,
         "For example /set temperature 0.7; /set temperature default takes it back.",
         slash="set", argument="KEY VALUE"),
    _act("theme", "Theme", "settings.theme", _S, "Changes the colours.", slash="theme", argument="[NAME]"),

    _act("model", "Choose a model", "models.choose", _D,
         "Lists the models with their size, draft and whether they fit this machine.",
         keys="f2", slash="model fit", argument="[ID]", short="models"),
    _act("draft", "Choose the draft model", "models.draft", _D,
         "A draft model by name, none, or auto for what the catalogue says. Loads the model again.",
         slash="draft", argument="ID|none|auto"),
    _act("method", "Choose how to draft", "models.method", _D,
         "The drafting method by name, none for plain decoding, or auto. Loads the model again.",
         slash="method", argument="NAME|none|auto"),
    _act("k", "Tokens drafted a step", "models.draft_tokens", _D,
         "A number from 0 to 64, or auto for what pays. Loads the model again.", slash="k", argument="N|auto"),
    _act("reload", "Load the model again", "models.reload", _D,
         "As it was, with half (smaller) or twice the context (larger), or without drafting (plain).",
         keys="f9", slash="reload", argument="[smaller|larger|plain]", when=_nothing_written, short="reload"),

    _act("bench", "Measure what drafting is worth", "bench.bench", _D,
         "Answers three questions plainly and with drafts, out of sight, and compares; last shows the result again.",
         slash="bench", argument="[TOKENS|last]", when=_ready_and_quiet),

    _act("panel", "Panel of figures", "looking.panel", _V, "Shows or hides the panel of figures.",
         keys="f3", slash="panel", short="figures"),
    _act("provenance", "Who wrote what", "looking.provenance", _V,
         "Marks in the answers which tokens were drafted and accepted, corrected, or a bonus.",
         keys="f4", slash="provenance", short="provenance"),
    _act("stats", "Figures of the answers", "looking.stats", _V,
         "All figures of the last answer, and one line for each answer before it.", slash="stats"),
    _act("tokens", "How full the context is", "looking.tokens", _V, "Tokens in use, and what is left.",
         slash="tokens context"),
    _act("show", "Show what is in force", "looking.show", _V,
         "Model and method (info), sampling (params), system prompt (system), the model's chat template (template), "
         "or the marks in answers (draft).",
         slash="show", argument="info|params|system|template|draft"),
    _act("log", "Logs", "looking.log", _V, "What llama.cpp and the engine wrote last; nothing of what was said.",
         slash="log"),

    _act("help", "Help", "looking.help", _P, "Keys and commands.", keys="f1", slash="help ?", short="help"),
    _act("palette", "All commands", "looking.palette", _P, "Finds a command by name.", keys="ctrl+p", short="commands",
         slash="commands", priority=True),
    _act("interrupt", "Copy, stop or quit", "quitting.interrupt", _P,
         "Copies what is selected; else stops the answer; else quits when pressed twice.",
         keys="ctrl+c", slash="interrupt", priority=True),
    _act("quit", "Quit", "quitting.quit", _P, "Leaves; everything is kept.", keys="ctrl+q", slash="quit exit bye",
         priority=True),
    _act("quit_empty", "Quit from an empty prompt", "quitting.quit", _P, "Leaves, where nothing is written.",
         keys="ctrl+d", slash="q", when=_in_empty_prompt, slash_when=_always, priority=True),
)  # fmt: skip

BY_ID: Final[Mapping[str, Action]] = {action.id: action for action in ACTIONS}
BY_SLASH: Final[Mapping[str, Action]] = {name: action for action in ACTIONS for name in action.slash}


def nearest(name: str, names: Mapping[str, object]) -> str | None:
    """The one of `names` that `name` most likely meant."""
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return found[0] if found else None
