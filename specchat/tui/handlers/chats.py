"""Actions on whole conversations."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specchat.chat.conversation import one_line
from specchat.tui.actions import BY_ID
from specchat.tui.handlers.deleting import forget

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp
    from specchat.tui.screens.chats import Place

_FORMATS: Final = {"md": "md", "markdown": "md", "json": "json"}
_NO_NAME: Final = re.compile(r"[^\w.-]+")


async def new(app: ChatApp, _argument: str) -> None:
    """Begin an empty conversation."""
    await app.talk.new()
    app.prompt.focus()


async def browse(app: ChatApp, argument: str) -> None:
    """Open another conversation."""
    from specchat.tui.screens.chats import ChatBrowser

    present = app.talk.chat.id if app.talk.chat else None

    async def opened(place: Place | None) -> None:
        if place is not None and (place.node_id is not None or place.chat_id != present):
            await app.attempt(_opened(app, place))
        if place is None or place.node_id is None:
            app.prompt.focus()

    app.push_screen(ChatBrowser(app.store, present, app.options.now, partial(forget, app), argument), opened)


async def _opened(app: ChatApp, place: Place) -> None:
    """Show a conversation, and in it the message that was found."""
    if app.talk.chat is None or app.talk.chat.id != place.chat_id:
        await app.talk.open(place.chat_id, place.node_id)
    elif place.node_id is not None and not app.talk.busy:
        await app.talk.show_through(place.node_id)
    if place.node_id is not None:
        app.transcript.focus()
        app.transcript.go_to(str(place.node_id))


async def rename(app: ChatApp, argument: str) -> None:
    """Give the conversation another title."""
    from specchat.tui.screens.ask_line import AskLine

    chat = app.talk.chat
    if chat is None:
        return
    if argument:
        app.store.rename(chat.id, argument)
        app.say(f"This conversation is called “{one_line(argument)}” now.")
        return

    async def renamed(title: str | None) -> None:
        if title:
            await app.perform(BY_ID["rename"], title)

    app.push_screen(AskLine("Rename this conversation", app.store.chat(chat.id).title), renamed)


async def export(app: ChatApp, argument: str) -> None:
    """Write the conversation to a file."""
    from specchat.chat.export import json_text, markdown

    chat = app.talk.chat
    if chat is None:
        return
    format, path = _target(argument)
    if path is None:
        title = _NO_NAME.sub("-", app.store.chat(chat.id).title)[:60].strip("-.") or "conversation"
        path = app.options.export_directory / f"{title}.{format}"
    text = await asyncio.to_thread(json_text if format == "json" else markdown, app.store, chat.id)
    try:
        # A file that is there is not ours to replace.
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ValueError(f"{path} is there already. Name another file: /export {format} PATH") from None
    except OSError as error:
        raise ValueError(f"{path} can't be written: {error.strerror}. Name another file: /export PATH") from None
    app.say(f"Written to {path.resolve()}.")


def _target(argument: str) -> tuple[str, Path | None]:
    """Format and path that the words name."""
    first, _, rest = argument.partition(" ")
    if first.lower() in _FORMATS:
        format, words = _FORMATS[first.lower()], rest.strip()
    else:
        words = argument.strip()
        format = "json" if words.lower().endswith(".json") else "md"
    try:
        return format, Path(words).expanduser() if words else None
    except RuntimeError:
        raise ValueError(f"There is no home directory for {words}. Name another file: /export PATH") from None
