"""What the user submitted goes to the model, or to an action."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specchat.chat.store_file import StoreError
from specchat.tui.commands import Command, Prompt, Unknown, read

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp


async def submit(app: ChatApp, typed: str) -> None:
    """Send a prompt, or do what a slash command asks for; what can't be done stays in the prompt."""
    match read(typed):
        case Prompt(text):
            await _send(app, text, typed)
        case Command(action, argument) if action.slash_when(app.situation()):
            # First, since the action may put something else there.
            app.prompt.clear_prompt(typed)
            if not await app.perform(action, argument):
                app.prompt.set_text(typed)
        case Command(action, _):
            app.say(f"/{action.slash[0]} makes no sense just now: {action.description}", "warning")
        case Unknown(_, sentence):
            app.say(sentence, "warning")


async def _send(app: ChatApp, text: str, typed: str) -> None:
    if not text.strip() and not app.attached:
        return
    try:
        await app.talk.send("\n".join([*app.attached.values(), text]))
    except StoreError as error:
        # The text stays in the prompt.
        app.say(str(error), "error")
        return
    app.attach({})
    app.prompt.clear_prompt(typed)
