"""Actions on how much of a conversation the model reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specchat.chat.shortening import ASK, DROP, SUMMARISE
from specchat.tui.notice import Notice

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_WAYS = {"drop": DROP, "summarise": SUMMARISE, "summarize": SUMMARISE, "summary": SUMMARISE}


async def trim(app: ChatApp, argument: str) -> None:
    """Leave the oldest messages unread, or summarise them; without a word offer it, and do the first at the second."""
    word, shortening = argument.strip().lower(), app.shortening
    if word == "all":
        again = await shortening.read_all()
        app.say("The model reads the whole conversation again." if again else "The model reads all of it as it is.")
        return
    if word and word not in _WAYS:
        raise ValueError(f"/trim takes drop, summarise or all, not {argument!r}.")
    if app.talk.busy:
        raise ValueError("An answer is being written. Stop it first (Esc).")
    offered = app.base.query_one(Notice).about_room and shortening.offered
    if word or offered:
        await shortening.make_room(_WAYS.get(word, DROP))
    else:
        shortening.measure(ASK)
