"""What the model reads of a branch: all of it or, where the context was full, what follows a cut.

Nothing is taken out of the conversation: a cut is a mark beside it, which holds in every branch through its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specchat.chat.conversation import Node, exchanges
from specchat.chat.message import Message, Role

SUMMARY_QUESTION: Final = (
    "Summarise our conversation so far in a few sentences, with every fact, name and decision that matters later."
)
"""What a summary is the answer to, when it is written and in every prompt after."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the model begins to read."""

    node_id: int
    """The first message that it reads, a question."""
    summary: str = ""
    """What it wrote about those before; empty where they are left out without one."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the model is asked with: system prompt, summary, then questions and answers in turn."""

    messages: tuple[Message, ...]
    nodes: tuple[int | None, ...]
    """The id of each message in the store; None for those that are not of the branch."""

    @property
    def head(self) -> int:
        """How many messages stand before those of the branch."""
        return next((place for place, node in enumerate(self.nodes) if node is not None), len(self.nodes))


def cut_in(thread: Sequence[Node], summaries: Mapping[int, str]) -> Cut | None:
    """The cut that holds in a branch: the last of those made in it. `summaries` are those of `Store.cuts`."""
    for node in reversed(thread):
        if node.id in summaries:
            return Cut(node.id, summaries[node.id])
    return None


def unread(thread: Sequence[Node], cut: Cut | None) -> int:
    """How many messages at the beginning of a branch the model does not read."""
    return 0 if cut is None else next((place for place, node in enumerate(thread) if node.id == cut.node_id), 0)


def asked(system: str, thread: Sequence[Node], cut: Cut | None = None) -> Asked:
    """What the model is asked with to answer the last question of a branch; past reasoning goes along, apart.

    Questions without an answer are left out, but for the last.
    """
    head = [Message(Role.SYSTEM, system)] if system.strip() else []
    if cut is not None and cut.summary.strip():
        head += [Message(Role.USER, SUMMARY_QUESTION), Message(Role.ASSISTANT, cut.summary)]
    pairs, waiting = exchanges(thread[unread(thread, cut) :])
    nodes = [node for pair in pairs for node in pair] + ([waiting] if waiting is not None else [])
    said = [Message(node.role, node.text, reasoning=node.reasoning) for node in nodes]
    return Asked((*head, *said), (*(None for _ in head), *(node.id for node in nodes)))
