"""The sessions that an audit compares: plain decoding and every method that the model allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final, Self

from specchat.catalogue.errors import ModelUnavailable
from specchat.chat.message import Message, Role
from specchat.chat.models import Models
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.drafters.method import Method
from specchat.engine.answer import Answer
from specchat.engine.settings import AnswerSettings, SettingsError
from specchat.engine.stopping import FinishReason
from specchat.llama.errors import LlamaError
from specchat.retrieval.errors import DatastoreError

DEPTH = 4
"""Tokens drafted a step: a fixed depth drafts also where it does not pay, which a proof must."""
CONTEXT = 1024
_OWN_DEPTH = (Method.AUTO, Method.LOOKAHEAD)


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
class Setup:
    """The model to audit and how it is run."""

    model: str | None
    draft: str | None = None
    threads: int | None = None
    gpu_layers: int = -1

    def request(self, method: Method) -> ModelRequest:
        """What to open for `method`."""
        drafts = method in (Method.AUTO, Method.DRAFT)
        return ModelRequest(
            model=self.model,
            draft=self.draft if drafts else None,
            method=method,
            draft_tokens=None if method in (*_OWN_DEPTH, Method.NONE) else DEPTH,
            context=CONTEXT,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            past_text=False,
        )

    def settled(self) -> Setup:
        """With a model's name in the place of the default.

        Choosing looks at the memory that is free, which an open session changes: chosen twice, two models might be
        compared with each other. Raises ModelUnavailable where there is none.
        """
        return replace(self, model=Models.settle(self.model))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A method that this model has not, and why."""

    method: Method
    reason: str


@contextmanager
def contestant(setup: Setup, method: Method) -> Iterator[Session | Unavailable]:
    """An open session of `method`, closed at the end; what is missing where it can't be opened."""
    try:
        session = open_session(setup.request(method))
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
