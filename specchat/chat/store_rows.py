"""Rows of the database of conversations, and the values in them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from specchat.chat.conversation import Node, Span
from specchat.chat.message import Role
from specchat.chat.store_file import NotStored

NODE: Final = ", ".join(f"node.{field.name}" for field in fields(Node))
"""The columns of a message, as `node_of` takes them."""


def gone(what: str) -> NotStored:
    """What to raise for a conversation or message that is no longer there."""
    return NotStored(f"The {what} is no longer there: it was deleted, perhaps by another specchat.")


def node_of(row: Sequence[Any]) -> Node:
    """The message of a row."""
    node = Node(*row)
    return replace(
        node,
        role=Role(node.role),
        statistics=None if node.statistics is None else json.loads(row[-2]),
        spans=None
        if node.spans is None
        else tuple((channel, text, origin) for channel, text, origin in json.loads(row[-1])),
    )


def storable(text: str) -> str:
    """Text without halves of characters, which no file can hold."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def as_json(value: Mapping[str, Any] | Sequence[Span] | None) -> str | None:
    """Statistics or spans as they are stored; a number that is not finite becomes null."""
    return None if value is None else json.dumps(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
