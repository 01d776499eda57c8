"""Actions that delete, after asking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from specchat.chat.conversation import Node, one_line
from specchat.chat.message import Role
from specchat.chat.store_file import StoreError

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_OVERWRITE_AFTER_S: Final = 1.0
_WORDS: Final = 40
"""Characters of a message that tell which it is."""


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
    await _deed(app, asyncio.to_thread(app.options.forget or app.store.delete, chat_id))


async def _deed(app: ChatApp, deed: Awaitable[None]) -> None:
    """Delete, and have what is left of it in the file overwritten when nothing else is deleted any more."""
    known = len(app.store.notes)
    await deed
    _say_notes(app, known)
    app.run_worker(_overwritten(app), group="overwriting", exclusive=True)


async def _overwritten(app: ChatApp) -> None:
    """Overwrite it, which the end of the program would do too, and say what the store has to say about it."""
    await asyncio.sleep(_OVERWRITE_AFTER_S)
    known = len(app.store.notes)
    await asyncio.to_thread(app.store.overwrite_deleted)
    _say_notes(app, known)


def _say_notes(app: ChatApp, known: int) -> None:
    for note in app.store.notes[known:]:
        app.say(note, "warning")


async def delete_message(app: ChatApp, _argument: str) -> None:
    """Delete the message at the cursor, or the last one, with what follows it."""
    from specchat.tui.screens.confirm import Confirm

    thread, selected = app.talk.thread(), app.transcript.selected
    id = int(selected.node_id) if selected is not None else thread[-1].id if thread else None
    node = next((node for node in thread if node.id == id), None)
    if node is None:
        return

    async def sure(yes: bool | None) -> None:
        if yes:
            await app.attempt(_message_deleted(app, node, thread))

    question = await asyncio.to_thread(_question, app, node)
    app.push_screen(Confirm("Delete a message", question, "Delete it"), sure)


def _question(app: ChatApp, node: Node) -> str:
    below = app.store.count_below(node.id)
    words = one_line(node.text)
    words = words if len(words) <= _WORDS else words[: _WORDS - 1].rstrip() + "…"
    who = "your message" if node.role is Role.USER else "the answer"
    following = {0: "", 1: " and the message that follows it"}.get(below, f" and the {below:,} that follow it")
    return f"Delete {who} “{words}”{following}, in every branch? It can't be brought back."


async def _message_deleted(app: ChatApp, node: Node, thread: list[Node]) -> None:
    if app.talk.busy:
        raise StoreError("An answer is being written. Stop it (Esc), then delete the message.")
    before = next((before for before, after in pairwise(thread) if after.id == node.id), None)
    await _deed(app, app.talk.remove(node.id))
    if before is not None and app.focused is app.transcript:
        app.transcript.put_cursor(str(before.id))
    elif not app.talk.thread():
        app.prompt.focus()
    app.say("The message is deleted.")
