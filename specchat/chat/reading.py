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
    summarised_to: int | None = None
    """The first message that the summary says nothing about, where more were left out after it was written."""
    missed: int = 0
    """How many messages before that it says nothing about either, since they were left out before it was written."""


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


def cut_in(branch: Sequence[int], cuts: Mapping[int, Cut]) -> Cut | None:
    """The cut that holds in a branch of these ids: the last of those made in it. `cuts` are those of `Store.cuts`."""
    return next((cuts[id] for id in reversed(branch) if id in cuts), None)


def unread(branch: Sequence[int], cut: Cut | None) -> int:
    """How many messages at the beginning of a branch, of which these are the ids, the model does not read."""
    return 0 if cut is None else _place(branch, cut.node_id)


def unsummarised(branch: Sequence[int], cut: Cut | None) -> int:
    """How many of the messages that the model does not read no summary stands for."""
    if cut is None or not cut.summary:
        return unread(branch, cut)
    after = 0 if cut.summarised_to is None else unread(branch, cut) - _place(branch, cut.summarised_to)
    return cut.missed + after


def about_unread(count: int, left_out: int, *, summary: bool, missed: int = 0) -> str:
    """What is said where the model begins to read: `count` messages before it it does not.

    With a summary, `left_out` are those of them that it says nothing about: the last ones, but for those that it
    `missed`.
    """
    above = f"the {count:,} messages above" if count != 1 else "the message above"
    if not summary:
        return f"{above} {'are' if count != 1 else 'is'} no longer read by the model"
    reads = "the model reads this summary, which it wrote itself, in the place of"
    if not left_out:
        return f"{reads} {above}:"
    if missed:
        others = f"the other {left_out:,} are" if left_out != 1 else "the other one is"
        return f"{reads} {count - left_out:,} of {above}; {others} not in it and no longer read:"
    after = f"the {left_out:,} after them are" if left_out != 1 else "the one after them is"
    return f"{reads} the first {count - left_out:,} of {above}; {after} no longer read:"


def _place(branch: Sequence[int], node_id: int) -> int:
    return branch.index(node_id) if node_id in branch else 0


def asked(system: str, thread: Sequence[Node], cut: Cut | None = None) -> Asked:
    """What the model is asked with to answer the last question of a branch; past reasoning goes along, apart.

    Questions without an answer are left out, but for the last.
    """
    head = [Message(Role.SYSTEM, system)] if system.strip() else []
    if cut is not None and cut.summary.strip():
        head += [Message(Role.USER, SUMMARY_QUESTION), Message(Role.ASSISTANT, cut.summary)]
    pairs, waiting = exchanges(thread[unread([node.id for node in thread], cut) :])
    nodes = [node for pair in pairs for node in pair] + ([waiting] if waiting is not None else [])
    said = [Message(node.role, node.text, reasoning=node.reasoning) for node in nodes]
    return Asked((*head, *said), (*(None for _ in head), *(node.id for node in nodes)))
