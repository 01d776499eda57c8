"""Ctrl+C and leaving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual.widgets import Input, TextArea

from specchat.tui.handlers.copying import put_on_clipboard

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_AGAIN_WITHIN_S: Final = 2.0


async def interrupt(app: ChatApp, _argument: str) -> None:
    """Copy what is selected; else stop the answer; else quit at the second time."""
    selected = _selected_text(app)
    if selected:
        put_on_clipboard(app, selected, "What was selected")
        # Else the next press would copy it once more, and never stop an answer.
        app.screen.clear_selection()
        return
    if app.talk.stop():
        return
    now, last = app.options.clock(), app.last_interrupt
    if last is not None and now - last <= _AGAIN_WITHIN_S:
        await app.leave()
        return
    app.last_interrupt = now
    app.say("Once more within 2 seconds quits.")


async def quit(app: ChatApp, _argument: str) -> None:
    """Leave."""
    await app.leave()


def _selected_text(app: ChatApp) -> str:
    """What is selected where the user writes, or in the transcript."""
    focused = app.focused
    if isinstance(focused, TextArea | Input) and focused.selected_text:
        return focused.selected_text
    return app.screen.get_selected_text() or ""
