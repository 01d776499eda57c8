"""The sessions that an audit compares: plain decoding and every method that the model allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

from specchat.bench.entrants import Arm, Model
from specchat.catalogue.errors import ModelUnavailable
from specchat.chat.message import Message, Role
from specchat.chat.session import Session, open_session
from specchat.drafters.method import Method
from specchat.engine.answer import Answer
from specchat.engine.settings import AnswerSettings, SettingsError
from specchat.engine.stopping import FinishReason
from specchat.llama.errors import LlamaError
from specchat.retrieval.errors import DatastoreError

DEPTH = 4
"""Tokens drafted a step: a fixed depth drafts also where it does not pay, which a proof must."""


class AuditCancelled(Exception):
    """The user wants no more of it."""


@dataclass(frozen=True, slots=True)
class Onlooker:
    """Hears what happens now, and may end the audit between two tokens."""

    told: Callable[[str], None] = lambda _: None
    cancelled: Callable[[], bool] = lambda: False

    def go_on(self) -> None:
        """Raise AuditCancelled where the audit is to end."""
        if self.cancelled():
            raise AuditCancelled

    def hear(self, what: str) -> None:
        """Say what comes next; raises AuditCancelled."""
        self.go_on()
        self.told(what)

    def of(self, part: str) -> Self:
        """The same onlooker, who hears also which part of the audit it is."""
        return replace(self, told=lambda what: self.told(f"{part}: {what}"))


NOBODY: Final = Onlooker()


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A method that this model has not, and why."""

    method: Method
    reason: str


@contextmanager
def contestant(model: Model, method: Method) -> Iterator[Session | Unavailable]:
    """An open session of `method`, closed at the end; what is missing where it can't be opened."""
    try:
        session = open_session(Arm(method, DEPTH).request(model))
    except (ModelUnavailable, LlamaError, SettingsError, DatastoreError) as error:
        if method is Method.NONE:
            raise
        yield Unavailable(method, str(error))
        return
    try:
        if session.engine.method is Method.NONE and method is not Method.NONE:
            yield Unavailable(method, " ".join(session.take_notes()) or "it decodes plainly here.")
        else:
            yield session
    finally:
        session.close()


def ask(
    session: Session, prompt: str, settings: AnswerSettings, onlooker: Onlooker = NOBODY, *, fresh: bool = True
) -> Answer:
    """The whole answer to `prompt`; `fresh`: nothing of it is in the target's cache. Raises AuditCancelled."""
    if fresh:
        session.engine.target.clear()
    turn = session.ask([Message(Role.USER, prompt)], settings, cancelled=onlooker.cancelled)
    for _ in turn:
        pass
    if turn.answer.finish_reason is FinishReason.CANCELLED:
        raise AuditCancelled
    return turn.answer
