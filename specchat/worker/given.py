"""The answers that were given, as the tokens the model wrote."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from specchat.chat.message import Message, Role

_KEPT: Final = 500


class AnswersGiven:
    """The tokens of the answers given, by their text: they are what the model said, and its cache holds them."""

    def __init__(self) -> None:
        self._vocabulary = ""
        self._ids: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def keep_for(self, vocabulary: str) -> None:
        """Forget all where the ids of this vocabulary mean something else."""
        if vocabulary != self._vocabulary:
            self._ids.clear()
            self._vocabulary = vocabulary

    def add(self, text: str, ids: Iterable[int]) -> None:
        """Remember the tokens of an answer, and no longer those of the oldest."""
        self._ids.pop(text.strip(), None)
        self._ids[text.strip()] = tuple(ids)
        if len(self._ids) > _KEPT:
            self._ids.popitem(last=False)

    def message(self, role: Role, text: str) -> Message:
        """The message, with its tokens where it is an answer that was given."""
        return Message(role, text, self._ids.get(text.strip()) if role is Role.ASSISTANT else None)
