"""Actions on what is being written: the editor, and files."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.app import SuspendNotSupported

from specchat.chat.text import visible
from specchat.tui.attaching import NotAttached, attached, path_of

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_NO_EDITOR: Final = "Set $EDITOR to the editor that is to be opened, for example: export EDITOR=nano"


async def edit_prompt(app: ChatApp, _argument: str) -> None:
    """Open the prompt in the editor."""
    text = _edited(app, app.prompt.full_text)
    if text is not None:
        app.prompt.set_text(text.removesuffix("\n"))
        app.prompt.focus()


async def open_message(app: ChatApp, _argument: str) -> None:
    """Open the message at the cursor in the editor; what is changed there changes nothing here."""
    record = app.transcript.selected
    if record is not None:
        _edited(app, visible(record.text))


async def attach(app: ChatApp, argument: str) -> None:
    """Send a file's text with the next question."""
    if not argument:
        app.attach({})
        app.say("No file goes with the next question.")
        return
    try:
        name, text = attached(argument)
    except NotAttached as error:
        raise ValueError(str(error)) from None
    app.attach({**app.attached, str(path_of(argument).resolve()): text})
    app.say(f"{name} goes with the next question ({len(text):,} characters). /file alone takes it back.")


def _edited(app: ChatApp, text: str) -> str | None:
    """The text as it was left in the editor; None, after saying why, where none could be used."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not command:
        app.say(_NO_EDITOR, "warning")
        return None
    with tempfile.TemporaryDirectory(prefix="specchat-") as directory:
        file = Path(directory) / "prompt.md"
        file.write_text(text, encoding="utf-8")
        try:
            with app.suspend():
                done = subprocess.run([*command, str(file)], check=False)
        except SuspendNotSupported:
            app.say("This terminal can't be lent to an editor.", "warning")
            return None
        except OSError as error:
            app.say(f"{command[0]} could not be started: {error.strerror}. {_NO_EDITOR}", "error")
            return None
        if done.returncode:
            app.say(f"{command[0]} ended with status {done.returncode}; the text is as it was.", "warning")
            return None
        try:
            return file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            app.say(f"{command[0]} left no text that can be read ({error.strerror}); it is as it was.", "warning")
            return None
