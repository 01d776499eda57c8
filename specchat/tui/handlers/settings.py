"""Actions on how answers are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specchat.chat.conversation import one_line
from specchat.tui.actions import nearest
from specchat.tui.choices import DEFAULTS, KEYS

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_THINKING = {None: "auto", True: "on", False: "off"}
_NEXT = {None: True, True: False, False: None}


async def think(app: ChatApp, argument: str) -> None:
    """Thinking on, off, or as the model wants; without a word the next of the three."""
    from specchat.tui.screens.settings import thinking

    loaded = app.talk.engine.loaded
    value = thinking(argument) if argument else _NEXT[app.talk.answers.thinking]
    app.talk.set_thinking(value)
    words = {None: "The model thinks as it is used to.", True: "The model thinks first.", False: "No thinking first."}
    if loaded is None or loaded.thinks or value is None:
        app.say(words[value])
    else:
        what = "on" if value else "off"
        app.say(f"Thinking is {what} for models that have a switch for it; {one_line(loaded.name)} has none.")


async def open_settings(app: ChatApp, _argument: str) -> None:
    """The screen of all of them."""
    from specchat.tui.screens.settings import Settings, SettingsScreen

    async def kept(settings: Settings | None) -> None:
        if settings is not None:
            app.talk.answers = settings.answers
            if settings.system != app.talk.system:
                await app.attempt(system_set(app, settings.system))
        app.prompt.focus()

    app.push_screen(SettingsScreen(Settings(app.talk.system, app.talk.answers)), kept)


async def system(app: ChatApp, argument: str) -> None:
    """Another system prompt; without words the settings."""
    if not argument:
        await open_settings(app, "")
    else:
        await system_set(app, argument)


async def system_set(app: ChatApp, words: str) -> None:
    """Another system prompt."""
    app.talk.set_system(words)
    app.say("The system prompt holds from the next answer on." if words else "There is no system prompt any more.")


async def set_value(app: ChatApp, argument: str) -> None:
    """One parameter."""
    key, _, value = argument.partition(" ")
    if not key:
        raise ValueError(f"/set KEY VALUE, with one of: {', '.join(KEYS)}. /show params says what is in force.")
    if not value.strip():
        present = app.talk.answers.shown(key) if key in KEYS else ""
        if key in KEYS:
            app.say(f"{key} is {present or f'at its default ({DEFAULTS[key]}, or the model’s own)'}.")
            return
    app.talk.answers = app.talk.answers.with_value(key, value or "default")
    key = key.lower().replace("-", "_")
    app.say(f"{key} is {app.talk.answers.shown(key) or 'at its default'} from the next answer on.")


async def theme(app: ChatApp, argument: str) -> None:
    """Another theme; without a name a list."""
    if not argument:
        app.search_themes()
        return
    if argument not in app.available_themes:
        near = nearest(argument, app.available_themes)
        hint = f" Did you mean {near}?" if near else f" There are: {', '.join(sorted(app.available_themes))}."
        raise ValueError(f"There is no theme {argument!r}.{hint}")
    app.theme = argument
