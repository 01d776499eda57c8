"""Actions on whole conversations."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specchat.chat.conversation import one_line
from specchat.chat.store_file import StoreError
from specchat.tui.actions import BY_ID

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

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

    async def opened(chat_id: str | None) -> None:
        if chat_id is not None and chat_id != (app.talk.chat.id if app.talk.chat else None):
            await app.attempt(app.talk.open(chat_id))
        app.prompt.focus()

    app.push_screen(ChatBrowser(app.store, present, app.options.now, partial(forget, app), argument), opened)


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


async def delete(app: ChatApp, _argument: str) -> None:
    """Delete the conversation, after asking."""
    from specchat.tui.screens.confirm import Confirm

    chat = app.talk.chat
    if chat is None:
        return
    title = one_line(app.store.chat(chat.id).title) or "untitled"

    async def sure(yes: bool | None) -> None:
        if yes:
            await app.attempt(_deleted(app, chat.id))

    question = f"Delete “{title}” with all its branches? It can't be brought back."
    app.push_screen(Confirm("Delete this conversation", question, "Delete it"), sure)


async def _deleted(app: ChatApp, chat_id: str) -> None:
    await forget(app, chat_id)
    app.say("The conversation is deleted.")


async def forget(app: ChatApp, chat_id: str) -> None:
    """Delete a conversation; one that is on the screen leaves it. Raises StoreError."""
    if app.talk.writes_in(chat_id):
        raise StoreError("An answer is still being written in this conversation. Stop it (Esc), then delete it.")
    if app.talk.chat is not None and app.talk.chat.id == chat_id:
        await app.talk.new()
    known = len(app.store.notes)
    await asyncio.to_thread(app.options.forget or app.store.delete, chat_id)
    for note in app.store.notes[known:]:
        app.say(note, "warning")


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
