"""Actions with the clipboard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specchat.chat.text import visible
from specchat.tui import clipboard
from specchat.tui.transcript import AnswerRecord

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp


async def copy(app: ChatApp, argument: str) -> None:
    """Copy the message at the cursor, the N-th message, the last code block, or the last answer."""
    if argument == "code":
        await copy_code(app, "")
    elif argument:
        _copy_numbered(app, argument)
    elif app.transcript.selected is not None:
        app.transcript.action_copy_message()
    else:
        answers = [record for record in app.transcript.records if isinstance(record, AnswerRecord)]
        if not answers:
            raise ValueError("There is no answer to copy yet.")
        put_on_clipboard(app, visible(answers[-1].text), "The last answer")


def _copy_numbered(app: ChatApp, argument: str) -> None:
    records = app.transcript.records
    if not argument.isdigit() or not 1 <= int(argument) <= len(records):
        raise ValueError(f"/copy takes the number of a message, 1 to {len(records)}, or the word code.")
    put_on_clipboard(app, visible(records[int(argument) - 1].text), f"Message {argument}")


async def copy_code(app: ChatApp, _argument: str) -> None:
    """Copy a code block: the next one of the message at the cursor, or the last of the newest answer that has one."""
    if app.transcript.selected is not None:
        app.transcript.action_copy_code()
        return
    answer = app.transcript.last_answer
    blocks = answer.code_blocks() if answer is not None else []
    if not blocks:
        raise ValueError("The last answer has no code block.")
    put_on_clipboard(app, blocks[-1], "The last code block" if len(blocks) > 1 else "The code block")


def put_on_clipboard(app: ChatApp, text: str, what: str) -> None:
    """Put text on the clipboard and say so."""
    problem = clipboard.copy(text, app.copy_to_clipboard, clipboard.desktop_command())
    app.say(problem or f"{what} is on the clipboard.", "warning" if problem else "information")
