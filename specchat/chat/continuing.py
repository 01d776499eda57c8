"""One question on the command line as part of a stored conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.locate import is_here
from specchat.catalogue.reference import PREFIX
from specchat.chat.conversation import Chat, Node, Span, exchanges
from specchat.chat.message import Role
from specchat.chat.reading import Asked, Cut, asked, cut_in
from specchat.chat.store import Store
from specchat.chat.store_file import NotStored


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was said so far in a conversation that is gone on with."""

    chat: Chat
    thread: tuple[Node, ...]
    """Its current branch up to the last answer."""
    cut: Cut | None
    """Where the model begins to read it, if not at its beginning."""

    def asked(self, system: str = "") -> Asked:
        """What is read of it before the next question, with its own system prompt or another."""
        return asked(system or self.chat.system, self.thread, self.cut)


def earlier(store: Store, chat_id: str | None) -> Earlier:
    """What was said in a conversation, None for the latest.

    Questions that were never answered are left out, and so is what the chat no longer reads since the context was full.
    Raises StoreError, and its kind NotStored where there is no such conversation.
    """
    chat = store.latest() if chat_id is None else store.chat(chat_id)
    if chat is None:
        raise NotStored('There is no conversation to continue yet. Begin one: specchat "Why is the sky blue?"')
    thread = store.thread(chat.id)
    pairs, _ = exchanges(thread)
    # A question that waits is not the one that is asked now.
    ids = [node.id for node in thread]
    answered = thread[: ids.index(pairs[-1][1].id) + 1] if pairs else []
    return Earlier(chat, tuple(answered), cut_in(ids[: len(answered)], store.cuts(chat.id)))


def model_of(chat: Chat, catalogue: Catalogue) -> str | None:
    """What the model that answered last is found by in the catalogue; None where it is not here or not known."""
    if not chat.model:
        return None
    # The full-screen chat keeps the model's name, which for one of the hub is the reference without its prefix.
    of_this_name = [entry.id for entry in catalogue.entries.values() if entry.name == chat.model]
    for name in (chat.model, *of_this_name, f"{PREFIX}{chat.model}"):
        try:
            if is_here(catalogue.find(name).target):
                return name
        except ModelUnavailable:
            continue
    return None


def begin(store: Store, chat: Chat, question: str, *, model: str) -> Node:
    """Store the question behind the last answer, and an empty answer to it, which is returned for `Store.write`."""
    pairs, _ = exchanges(store.thread(chat.id))
    asked = store.add(chat.id, pairs[-1][1].id if pairs else None, Role.USER, question)
    return store.add(chat.id, asked.id, Role.ASSISTANT, "", model=model)


def record(
    store: Store,
    chat: Chat,
    question: str,
    answer: str,
    *,
    model: str,
    reasoning: str = "",
    finish_reason: str = "stop",
    statistics: Mapping[str, Any] | None = None,
    spans: Sequence[Span] | None = None,
) -> Node:
    """Store a question and its finished answer behind the last one of the conversation."""
    node = begin(store, chat, question, model=model)
    store.write(
        node.id, text=answer, reasoning=reasoning, finish_reason=finish_reason, statistics=statistics, spans=spans
    )
    return store.node(node.id)
