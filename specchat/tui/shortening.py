"""A conversation that no longer fits the context: what the model reads of it is cut, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from specchat.chat.conversation import Node
from specchat.chat.reading import Asked
from specchat.chat.room import Need, longest_summary
from specchat.chat.shortening import ASK, DROP, STOPPED, SUMMARISE, NoPlace, NoSummary, Place, Summarising, place_in
from specchat.chat.store_file import StoreError
from specchat.tui.aside import Aside
from specchat.tui.talk import Talk
from specchat.tui.threads import told, told_of
from specchat.worker.messages import Loaded, Measure, Measured


class Shortening:
    """Finds the place, asks the user or does what was set, and has a question that was refused answered after all."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._number = 0
        self._asked: Asked | None = None
        """What is being measured."""
        self._leaf: int | None = None
        """The end of the branch that is, or that was when the place was found."""
        self._context = 0
        """What the model that is open could hold then."""
        self._then = ASK
        self._refused: int | None = None
        """The empty answer of the question that did not fit."""
        self._place: Place | None = None
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
        if not self._stands(thread) or talk.engine.loaded is None:
            return
        need = Need(event.tokens, event.first, event.pieces, event.crowded)
        place = place_in(thread, asked, talk.cut(thread), need, talk.engine.loaded.context)
        if isinstance(place, NoPlace):
            if place.full:
                talk.stage.offer_room(place.sentence, 0)
            else:
                talk.stage.say(place.sentence)
            return
        self._place, self._context = place, talk.engine.loaded.context
        if self._then == ASK or (self._then == SUMMARISE and not place.can_be_summarised):
            self._offer(place)
        else:
            await self.make_room(self._then)

    async def make_room(self, how: str) -> None:
        """Drop or summarise what was found, or look for it first; raises StoreError."""
        place = self._place
        loaded = self._talk.engine.loaded
        same = loaded is not None and loaded.context == self._context
        if place is None or not same or not self._stands(self._talk.thread()):
            self.measure(how)
        elif how == DROP:
            await self._cut(place, DROP)
        elif place.can_be_summarised:
            self._summing_up = asyncio.get_running_loop().create_task(self._summarise(place))
        else:
            self._offer(place)
            self._talk.stage.say(place.why_no_summary, "error")

    def _stands(self, thread: list[Node]) -> bool:
        """Whether the branch on the screen is still the one that was measured."""
        return bool(thread) and thread[-1].id == self._leaf

    def _offer(self, place: Place) -> None:
        self._talk.stage.offer_room(place.offer, place.messages, summarise=place.can_be_summarised)

    async def ask_again(self) -> bool:
        """Have the question that was refused answered, if it is still the last; whether it is. Raises StoreError."""
        talk, thread = self._talk, self._talk.thread()
        refused, self._refused = self._refused, None
        if refused is None or talk.editing or not thread or thread[-1].id != refused:
            return False
        # The answer says nothing but that there was no room. Nothing may be asked between its end and the next one.
        talk.store.remove(refused)
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

    async def _cut(self, place: Place, how: str, summary: str = "") -> None:
        talk = self._talk
        if place.node_id is None:
            raise StoreError("The question is not stored, so nothing can be left out before it.")
        place.keep(talk.store, place.node_id, how, summary)
        talk.stage.withdraw_room()
        self._place = None
        if not await self.ask_again():
            await talk.show()
        talk.stage.say(place.done(how))

    async def _summarise(self, place: Place) -> None:
        talk = self._talk
        loaded = talk.engine.loaded
        if loaded is None or talk.busy:
            talk.stage.say("Something else is under way, so nothing was summarised.", "warning")
            return
        talk.stage.withdraw_room()
        aside = talk.begin_aside(f"summarising {place.named}")
        try:
            summary, why = await self._summary(aside, place, loaded)
            if not self._stands(talk.thread()):
                return  # The user went elsewhere.
            if summary:
                talk.aside = None
                await self._cut(place, SUMMARISE, summary)
                return
            talk.stage.say(why, "information" if aside.stopping and talk.engine.loaded is not None else "error")
            if talk.engine.loaded is not None:
                self._offer(place)
        except StoreError as error:
            talk.stage.say(str(error), "error")
        finally:
            await talk.end_aside()

    async def _summary(self, aside: Aside, place: Place, loaded: Loaded) -> tuple[str, str]:
        """The summary of all pieces; where there is none, why."""
        summarising, words = Summarising(place), aside.words
        while summarising.asked:
            aside.words = f"{words}{summarising.step}"
            self._talk.stage.changed()
            request = self._talk.request(told_of(summarising.asked), max_tokens=longest_summary(loaded.context))
            # All of those tokens are for the summary, and what ends an answer early does not end it.
            request = replace(request, stop_strings=(), thinking=False if loaded.thinks else request.thinking)
            written = await aside.ask(request)
            if written.cancelled:
                return "", STOPPED
            try:
                summarising.take(written.text, written.end.error)
            except NoSummary as error:
                return "", str(error)
        return summarising.summary, ""
