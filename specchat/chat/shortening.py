"""A conversation that no longer fits the context: where to cut what the model reads, and what to say about it.

Cuts are few and large: each costs reading all that is kept once more, and what is kept is then reused. Nothing is
taken out of the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specchat.chat.conversation import Node
from specchat.chat.message import Message, Role
from specchat.chat.reading import SUMMARY_QUESTION, Asked, Cut, unread, unsummarised
from specchat.chat.room import Need, with_summary
from specchat.chat.store import Store

ASK, DROP, SUMMARISE = "ask", "drop", "summarise"
"""What may be done; those of `preferences.WHEN_FULL`."""
STOPPED = "The summary was stopped; nothing has changed."


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation could be cut."""

    node_id: int | None
    """The first message that would be read; None: the question that is being asked, which is not stored yet."""
    messages: int
    """How many fewer would be read."""
    cut: Cut | None
    """The cut that holds so far."""
    told: tuple[Message, ...]
    """What the model was asked with, `head` of it before the branch."""
    head: int
    first: int
    """Where in `told` what would be read begins."""
    pieces: tuple[int, ...]
    """Where in `told` the pieces end that can be summarised; empty where they can't be."""
    full: str
    """A sentence: how many tokens there are, and how many fit."""
    crowded: bool
    """They can't be since a summary would leave no room, though they could be read for one."""
    missed: int
    """How many messages before them are in no summary."""

    @property
    def can_be_summarised(self) -> bool:
        """Whether what would be left out fits to be read once more, at least in pieces."""
        return bool(self.pieces)

    @property
    def named(self) -> str:
        """What would be left out: the 4 oldest messages; after a cut: 4 more messages."""
        if self.cut is not None:
            return f"{self.messages:,} more {_messages(self.messages)}"
        return f"the {self.messages:,} oldest messages" if self.messages > 1 else "the oldest message"

    @property
    def offer(self) -> str:
        """What is said where the user is asked."""
        if self.cut is not None:
            what = f"{self.messages:,} more of its messages"
        else:
            what = f"Its {self.messages:,} oldest messages" if self.messages > 1 else "Its oldest message"
        sentence = f"{self.full} {what} can be left unread: {_are(self.messages, 'they are', 'it is')} kept."
        if not self.can_be_summarised:
            return f"{sentence} {self.why_no_summary}"
        return sentence if len(self.pieces) == 1 else f"{sentence} A summary takes {len(self.pieces)} steps."

    @property
    def why_no_summary(self) -> str:
        """A sentence for where they can't be summarised."""
        if self.crowded:
            what = "with a summary, what comes after would leave no room for an answer"
            return f"{_are(self.messages, 'They', 'It')} can't be summarised: {what}."
        which = "one of them is" if self.messages > 2 else "they are" if self.messages > 1 else "it is"
        return f"{_are(self.messages, 'They', 'It')} can't be summarised: {which} too long to be read again for that."

    def done(self, how: str, takes_back: str = "/trim all takes that back.") -> str:
        """What is said when it was done; `takes_back`: a sentence about how it can be undone."""
        name = self.named[0].upper() + self.named[1:]
        what = "summarised" if how == SUMMARISE else "no longer read"
        kept = " The summary of those before is still read." if how == DROP and self.cut and self.cut.summary else ""
        return f"{name} {_are(self.messages, 'are', 'is')} {what}, to make room.{kept} {takes_back}"

    def keep(self, store: Store, node_id: int, how: str, summary: str = "") -> None:
        """Let the model read from `node_id` on, the place's own message; raises StoreError.

        A summary of what was left out before is still read where more is left out without one.
        """
        if how == DROP and self.cut is not None and self.cut.summary:
            store.cut(node_id, self.cut.summary, self.cut.summarised_to or self.cut.node_id, self.cut.missed)
        else:
            store.cut(node_id, summary, missed=self.missed if summary else 0)


class NoSummary(Exception):
    """They could not be summarised; the message is a sentence."""


class Summarising:
    """A summary of what a place would leave out, while it is written piece after piece."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._done = 0
        self.summary = ""
        """Of the pieces so far."""

    @property
    def asked(self) -> tuple[Message, ...]:
        """What the model is to answer next; empty where all is summarised."""
        place = self._place
        if self._done == len(place.pieces):
            return ()
        start = place.pieces[self._done - 1] if self._done else place.head
        head = place.told[: place.head]
        before = with_summary(head, self.summary) if self._done else head
        return (*before, *place.told[start : place.pieces[self._done]], Message(Role.USER, SUMMARY_QUESTION))

    @property
    def step(self) -> str:
        """Which of how many pieces is summarised, where there are several."""
        count = len(self._place.pieces)
        return f": step {self._done + 1} of {count}" if count > 1 else ""

    def take(self, answer: str, error: str | None = None) -> None:
        """Take the model's answer, or a sentence about why there is none; raises NoSummary."""
        if error or not answer.strip():
            raise NoSummary(f"The oldest messages could not be summarised: {error or 'the model wrote nothing.'}")
        self.summary = answer.strip()
        self._done += 1


@dataclass(frozen=True, slots=True)
class NoPlace:
    """Nothing can be left out: a sentence about why."""

    sentence: str
    full: bool
    """There is no room either."""


def place_in(thread: Sequence[Node], asked: Asked, cut: Cut | None, need: Need, context: int) -> Place | NoPlace:
    """Where to cut a branch of which the model reads `asked`, and which takes `need` of `context` tokens."""
    read = "The conversation" if cut is None else "What is read of the conversation"
    full = f"{read} has {need.tokens:,} tokens, and the context holds {context:,}."
    if need.first is None:
        return NoPlace(f"{full} {_last_alone(asked, cut)}", True)
    ids = [node.id for node in thread]
    # Questions without an answer are read neither before nor after.
    fewer = need.first - asked.head
    if fewer <= 0:
        return NoPlace(f"{full} {_nothing_more(unread(ids, cut), fits_well=need.tokens <= context // 2)}", False)
    return Place(
        asked.nodes[need.first],
        fewer,
        cut,
        asked.messages,
        asked.head,
        need.first,
        need.pieces,
        full,
        need.crowded,
        unsummarised(ids, cut),
    )


def _last_alone(asked: Asked, cut: Cut | None) -> str:
    beside = ["the system prompt"] if any(one.role is Role.SYSTEM for one in asked.messages[: asked.head]) else []
    beside += ["the summary"] if cut is not None and cut.summary else []
    if asked.messages and asked.messages[-1].role is Role.ASSISTANT:
        what, leaves = "The last question and its answer", "leave no room for another"
    else:
        what, leaves = "The last question", "leaves no room for an answer"
    return f"{what} {'with ' + ' and '.join(beside) if beside else 'alone'} {leaves}."


def _nothing_more(before: int, *, fits_well: bool) -> str:
    left_out = (
        f" The {before:,} {_messages(before)} before {_are(before, 'are', 'is')} left out already." if before else ""
    )
    if fits_well:
        return f"That is half of it at most, so nothing {'more ' if before else ''}has to be left out.{left_out}"
    return f"There is nothing {'more ' if before else ''}before the last question that could be left out.{left_out}"


def _messages(count: int) -> str:
    return "messages" if count != 1 else "message"


def _are(count: int, several: str, one: str) -> str:
    return several if count != 1 else one
