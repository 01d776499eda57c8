"""Actions on questions and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specchat.chat.conversation import Node
from specchat.chat.message import Role
from specchat.tui.choices import switch

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_GO_ON = "Please go on exactly where you stopped."


async def stop(app: ChatApp, _argument: str) -> None:
    """Stop the answer; where there is none, leave a branch that was begun, or go to the prompt."""
    if app.talk.stop() or await app.talk.leave_editing():
        return
    if app.situation().no_room:
        app.stage.withdraw_room()
        return
    app.transcript.leave_cursor()
    app.prompt.focus()


async def retry(app: ChatApp, _argument: str) -> None:
    """Answer the question at the cursor, or the last one, again."""
    await app.talk.retry(_selected_id(app))


async def go_on(app: ChatApp, _argument: str) -> None:
    """Ask for more of the answer."""
    await app.talk.send(_GO_ON)


async def undo(app: ChatApp, _argument: str) -> None:
    """Take the last question back into the prompt."""
    question = _last(app, Role.USER)
    if question is not None:
        await app.talk.undo(question)


async def speculation(app: ChatApp, argument: str) -> None:
    """Decode the next answer plainly, or with drafts again."""
    app.talk.speculate_next = switch(argument, app.talk.speculate_next)
    plain = "The next answer is decoded plainly; its speed is compared with the one before."
    app.say("The next answer is drafted for." if app.talk.speculate_next else plain)


async def edit(app: ChatApp, node_id: str) -> None:
    """Write the question at the cursor anew, of an answer the one before it, or else the last one."""
    id = int(node_id) if node_id.isdigit() else _selected_id(app)
    thread = app.talk.thread()
    place = next((place for place, node in enumerate(thread) if node.id == id), len(thread) - 1)
    question = next((node for node in reversed(thread[: place + 1]) if node.role is Role.USER), None)
    if question is not None:
        await app.talk.edit(question.id)


async def branch(app: ChatApp, _argument: str) -> None:
    """Go on from the answer at the cursor; a question is written anew."""
    id = _selected_id(app)
    node = next((node for node in app.talk.thread() if node.id == id), None) or _last(app, Role.ASSISTANT)
    if node is None:
        return
    if node.role is Role.USER:
        await app.talk.edit(node.id)
    else:
        await app.talk.branch_from(node.id)
        app.prompt.focus()


async def previous_branch(app: ChatApp, node_id: str) -> None:
    """Show the version before."""
    await _walk(app, node_id, -1)


async def next_branch(app: ChatApp, node_id: str) -> None:
    """Show the version after."""
    await _walk(app, node_id, 1)


async def _walk(app: ChatApp, node_id: str, step: int) -> None:
    if app.talk.busy:
        app.say("Stop the answer first; then its branches can be walked.", "warning")
        return
    selected = _selected_id(app)
    ids = [int(node_id)] if node_id.isdigit() else [selected]
    if ids == [None]:
        # From the prompt: the newest message that has another version.
        ids = [node.id for node in reversed(app.talk.thread())]
    for id in ids:
        shown = await app.talk.walk(id, step) if id is not None else None
        if shown is not None:
            if selected is not None:
                app.transcript.put_cursor(str(shown.id))
            return
    app.say("There is no other version of this message in that direction.")


def _selected_id(app: ChatApp) -> int | None:
    selected = app.transcript.selected
    return int(selected.node_id) if selected is not None else None


def _last(app: ChatApp, role: Role) -> Node | None:
    return next((node for node in reversed(app.talk.thread()) if node.role is role), None)
