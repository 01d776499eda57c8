"""A one-shot question as part of a stored conversation."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Final

from specchat.chat.continuing import Earlier, begin, earlier
from specchat.chat.conversation import Chat, Node
from specchat.chat.session import Session
from specchat.chat.shortening import Place
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import NotStored, StoreError
from specchat.chat.turn import Turn
from specchat.worker.figures import AnswerFigures

_EVERY_S: Final = 1.0
"""A killed process loses no more than this."""


@dataclass(slots=True)
class Recording:
    """An open conversation that one question and its answer are added to.

    Raises StoreError where the store can't be opened or written, NotStored where there is no such conversation.
    """

    store: Store
    chat: Chat | None
    """None: a new one is begun with the question."""
    earlier: Earlier | None = None
    """What stands before the question."""
    unkept: str = field(default="", init=False)
    """Why what the question left out will be read again by the next one: a sentence."""
    _shortened: tuple[Place, str, str] | None = field(default=None, init=False)
    """What the question leaves out of it: where, how, and the summary of that."""
    _node: int | None = field(default=None, init=False)
    _written: float = field(default=0.0, init=False)

    @classmethod
    def of_new(cls) -> Recording:
        """For a conversation that begins with this question."""
        return cls(Store(store_path()), None)

    @classmethod
    def continuing(cls, chat_id: str | None) -> Recording:
        """Go on with a conversation; None: with the one in which something was said last."""
        store = Store(store_path())
        try:
            found = earlier(store, chat_id)
            return cls(store, found.chat, found)
        except NotStored as error:
            store.close()
            # A file that was set aside is why nothing is there.
            raise NotStored(" ".join([*store.notes, str(error)])) from None
        except BaseException:
            store.close()
            raise

    def shorten(self, place: Place, how: str, summary: str) -> None:
        """The question will be asked without what comes before `place`, and so will those after it."""
        self._shortened = place, how, summary

    def begin(self, question: str, *, model: str, system: str) -> str:
        """Store the question; the id of its conversation."""
        if self.chat is None:
            self.chat = self.store.new_chat(model=model, system=system)
        answer = begin(self.store, self.chat, question, model=model)
        self._node = answer.id
        self._keep_shortened(self.chat, answer)
        self._written = time.monotonic()
        return self.chat.id

    def _keep_shortened(self, chat: Chat, answer: Node) -> None:
        if self._shortened is None or answer.parent is None:
            return
        place, how, summary = self._shortened
        node_id = place.node_id or answer.parent
        try:
            # Meanwhile another program may have gone to another branch, or deleted a message.
            if node_id in self.store.thread_ids(chat.id):
                place.keep(self.store, node_id, how, summary)
            else:
                self.unkept = "the conversation has changed meanwhile."
        except StoreError as error:
            self.unkept = str(error)

    def progress(self, turn: Turn) -> None:
        """Keep what is written of the answer, once a second."""
        if time.monotonic() - self._written >= _EVERY_S and self._node is not None:
            self._written = time.monotonic()
            self.store.write(self._node, text=turn.text, reasoning=turn.reasoning)

    def finish(self, session: Session, turn: Turn, reason: str) -> None:
        """Keep the answer as it ended, for `reason`, with the figures that the chat shows of one."""
        if self._node is not None:
            self.store.write(
                self._node,
                text=turn.text,
                reasoning=turn.reasoning,
                finish_reason=reason,
                statistics=asdict(AnswerFigures(session, turn.answer, speculate=True).now()),
            )

    def close(self) -> None:
        """Close the store."""
        self.store.close()
