"""A branch of a conversation, as the model is given it and as the transcript shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from specchat.chat.conversation import Node
from specchat.chat.message import Message, Role
from specchat.chat.reading import Asked, Cut, unread, unsummarised
from specchat.tui.transcript.records import AnswerRecord, Record, Unread, UserRecord
from specchat.tui.wording import answer_line
from specchat.worker.messages import Figures, Span

Branches = Mapping[int, tuple[int, int]]
"""Which of how many versions a message is, by its id; those with one version may be missing."""

UNFINISHED = "error"
_KILLED = "The program ended while this was written."


def told(asked: Asked) -> tuple[tuple[str, str], ...]:
    """What the model is asked with, as the worker takes it: without past reasoning."""
    return told_of(asked.messages)


def told_of(messages: Sequence[Message]) -> tuple[tuple[str, str], ...]:
    """Messages as the worker takes them."""
    return tuple((message.role.value, message.content) for message in messages)


def records_of(
    thread: Sequence[Node], branches: Branches, cut: Cut | None = None, branch: Sequence[int] | None = None
) -> list[Record]:
    """A branch for the transcript; system messages are not shown there.

    `branch`: the ids of all of it, where the thread is only a part.
    """
    ids = [node.id for node in thread] if branch is None else branch
    records: list[Record] = []
    for node in thread:
        which = branches.get(node.id, (1, 1))
        if node.role is Role.USER:
            record = UserRecord(str(node.id), node.text, which)
            if cut is not None and cut.node_id == node.id:
                record.unread = Unread(unread(ids, cut), cut.summary, unsummarised(ids, cut), cut.missed)
            records.append(record)
        elif node.role is Role.ASSISTANT:
            records.append(_answer_record(node, which))
    return records


def _answer_record(node: Node, branch: tuple[int, int]) -> AnswerRecord:
    reason = node.finish_reason or UNFINISHED
    figures = figures_of(node.statistics)
    most = (node.statistics or {}).get("max_tokens")
    return AnswerRecord(
        node_id=str(node.id),
        model=node.model,
        text=node.text,
        reasoning=node.reasoning,
        spans=[Span(*span) for span in node.spans or ()],
        figures_line=answer_line(figures) if node.statistics else "",
        reason=reason,
        error="" if node.finish_reason else _KILLED,
        branch=branch,
        tokens=figures.tokens,
        max_tokens=most if isinstance(most, int) else None,
    )


def figures_of(statistics: Mapping[str, Any] | None) -> Figures:
    """Stored statistics as figures; what is missing or of another kind is left at its default."""
    known = {f.name: f.default for f in fields(Figures)}
    found = {name: value for name, value in (statistics or {}).items() if name in known and value is not None}
    for name in ("depths", "methods", "choices"):
        value = found.get(name)
        if isinstance(value, Mapping):
            found[name] = {(int(key) if name == "depths" else key): steps for key, steps in value.items()}
    if "per_position" in found:
        found["per_position"] = tuple(found["per_position"])
    return Figures(**found)


def versions(nodes: Sequence[Node]) -> dict[int, tuple[int, int]]:
    """Which of how many versions each message is; `nodes` are all of a conversation, in the order of their ids."""
    families: dict[int | None, list[int]] = {}
    for node in nodes:
        families.setdefault(node.parent, []).append(node.id)
    return {
        id: (place, len(family))
        for family in families.values()
        if len(family) > 1
        for place, id in enumerate(family, start=1)
    }
