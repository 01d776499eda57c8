"""The sessions that an audit compares: plain decoding and every method that the model allows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from specchat.catalogue.errors import ModelUnavailable
from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.drafters.method import Method
from specchat.engine.answer import Answer
from specchat.engine.settings import AnswerSettings
from specchat.llama.errors import LlamaError

DEPTH = 4
"""Tokens drafted a step: a fixed depth drafts also where it does not pay, which a proof must."""
CONTEXT = 1024
_OWN_DEPTH = (Method.AUTO, Method.LOOKAHEAD)


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
    except (ModelUnavailable, LlamaError) as error:
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


def ask(session: Session, prompt: str, settings: AnswerSettings, *, fresh: bool = True) -> Answer:
    """The whole answer to `prompt`; `fresh`: nothing of it is in the target's cache."""
    if fresh:
        session.engine.target.clear()
    turn = session.ask([Message(Role.USER, prompt)], settings)
    for _ in turn:
        pass
    return turn.answer
