"""A conversation that no longer fits the context: what the model reads of it is cut, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Final

from specchat.chat.message import Role
from specchat.chat.reading import SUMMARY_QUESTION, Asked, unread
from specchat.chat.store_file import StoreError
from specchat.tui.talk import Talk
from specchat.tui.threads import told
from specchat.worker.messages import Measure, Measured

ASK, DROP, SUMMARISE = "ask", "drop", "summarise"
_LONGEST_SUMMARY: Final = 400
"""Tokens; and no more than an eighth of the context."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the conversation could be cut."""

    leaf: int
    """The end of the branch that was measured."""
    node_id: int
    """The first message that would be read."""
    messages: int
    """How many fewer would be read."""
    older: tuple[tuple[str, str], ...]
    """Those, and what stands before them, as the model was told them."""
    sentence: str
    """What is said where the user is asked."""


class Shortening:
    """Finds the place, asks the user or does what was set, and has a question that was refused answered after all.

    Cuts are few and large: each costs reading all that is kept once more, and what is kept is then reused.
    """

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._number = 0
        self._asked: Asked | None = None
        """What is being measured."""
        self._leaf: int | None = None
        """The end of the branch that is."""
        self._then = ASK
        self._refused: int | None = None
        """The empty answer of the question that did not fit."""
        self._place: _Place | None = None
        self._summing_up: asyncio.Task[None] | None = None

    async def refused(self, node_id: int) -> None:
        """A question was not answered, since there was no room for it."""
        self._refused = node_id
        self.measure(self._talk.options.when_full)

    def measure(self, then: str) -> None:
        """Ask the worker where to cut, and then ask the user, or drop or summarise at once."""
        talk = self._talk
        self._number += 1
        self._then, self._place = then, None
        thread = talk.thread()
        self._leaf = thread[-1].id if thread else None
        self._asked = asked = talk.asked(thread)
        talk.worker.send(Measure(self._number, told(asked), asked.head, talk.answers.thinking))

    async def measured(self, event: Measured) -> None:
        """The worker's answer; raises StoreError."""
        talk, asked = self._talk, self._asked
        if event.number != self._number or asked is None or talk.busy:
            return
        if event.error:
            talk.stage.say(event.error, "error")
            return
        thread = talk.thread()
        # The user may have gone elsewhere.
        if not thread or thread[-1].id != self._leaf or talk.engine.loaded is None:
            return
        full = f"The conversation has {event.tokens:,} tokens, and the context holds {talk.engine.loaded.context:,}."
        if event.first is None:
            talk.stage.offer_room(f"{full} The last question alone leaves no room for an answer.", 0)
            return
        node_id = asked.nodes[event.first]
        place = next((place for place, node in enumerate(thread) if node.id == node_id), 0)
        fewer = place - unread(thread, talk.cut(thread))
        if node_id is None or fewer <= 0:
            talk.stage.say(f"{full} There is nothing older that could be left out.")
            return
        sentence = f"{full} Its {fewer:,} oldest messages can be left unread: they are kept."
        self._place = _Place(thread[-1].id, node_id, fewer, told(asked)[: event.first], sentence)
        if self._then == ASK:
            talk.stage.offer_room(sentence, fewer)
        else:
            await self.make_room(self._then)

    async def make_room(self, how: str) -> None:
        """Drop or summarise what was found, or look for it first; raises StoreError."""
        thread = self._talk.thread()
        if self._place is None or not thread or thread[-1].id != self._place.leaf:
            self.measure(how)
        elif how == SUMMARISE:
            self._summing_up = asyncio.get_running_loop().create_task(self._summarise(self._place))
        else:
            cut = self._talk.cut(thread)
            await self._cut(self._place, cut.summary if cut is not None else "", "no longer read")

    async def ask_again(self) -> bool:
        """Have the question that was refused answered, if it is still the last; whether it is. Raises StoreError."""
        talk, thread = self._talk, self._talk.thread()
        refused, self._refused = self._refused, None
        if refused is None or talk.editing or not thread or thread[-1].id != refused:
            return False
        # The answer says nothing but that there was no room. Nothing may be asked between its end and the next one.
        talk.store.remove(refused, overwrite=False)
        await talk.retry(thread[-1].parent)
        return True

    @property
    def offered(self) -> bool:
        """Whether a place is known."""
        return self._place is not None

    async def read_all(self) -> bool:
        """Let the model read the whole branch again; whether it did not. Raises StoreError."""
        talk, thread = self._talk, self._talk.thread()
        if talk.cut(thread) is None:
            return False
        talk.store.uncut([node.id for node in thread])
        self._place = None
        await talk.show()
        return True

    async def _cut(self, place: _Place, summary: str, what: str) -> None:
        talk = self._talk
        talk.store.cut(place.node_id, summary)
        talk.stage.withdraw_room()
        self._place = None
        if not await self.ask_again():
            await talk.show()
        talk.stage.say(f"The {place.messages:,} oldest messages are {what}, to make room. /trim all takes that back.")

    async def _summarise(self, place: _Place) -> None:
        talk = self._talk
        loaded = talk.engine.loaded
        if loaded is None or talk.busy:
            return
        talk.stage.withdraw_room()
        aside = talk.begin_aside(f"summarising the {place.messages:,} oldest messages")
        try:
            question = (*place.older, (Role.USER.value, SUMMARY_QUESTION))
            most = min(_LONGEST_SUMMARY, loaded.context // 8)
            request = talk.request(question, max_tokens=most)
            # All of those tokens are for the summary.
            written = await aside.ask(replace(request, thinking=False) if loaded.thinks else request)
            summary = written.text.strip()
            thread = talk.thread()
            if not thread or thread[-1].id != place.leaf:
                return  # The user went elsewhere.
            if not written.cancelled and summary and not written.end.error:
                talk.aside = None
                await self._cut(place, summary, "summarised")
                return
            if written.cancelled:
                talk.stage.say("The summary was stopped; nothing has changed.")
            else:
                why = written.end.error or "the model wrote nothing."
                talk.stage.say(f"The oldest messages could not be summarised: {why}", "error")
            if talk.engine.loaded is not None:
                talk.stage.offer_room(place.sentence, place.messages)
        except StoreError as error:
            talk.stage.say(str(error), "error")
        finally:
            await talk.end_aside()
