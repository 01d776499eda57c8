"""Moving through the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp


async def previous_message(app: ChatApp, _argument: str) -> None:
    """To the message above."""
    app.transcript.focus()
    app.transcript.action_cursor_previous()


async def next_message(app: ChatApp, _argument: str) -> None:
    """To the message below; from the last one back to the prompt."""
    records, selected = app.transcript.records, app.transcript.selected
    app.transcript.action_cursor_next()
    if selected is None or selected is records[-1]:
        app.prompt.focus()
    else:
        app.transcript.focus()
