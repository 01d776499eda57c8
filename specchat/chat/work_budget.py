"""How much work a chat template may do.

Templates come with downloaded files, and Jinja's sandbox guards names, not time or memory. A budget counts work
instead of seconds, so that a template always ends the same way: every loop step and call costs, and so does every
character or item that is built, compared or printed. No single operation makes more than was paid for, so the
budget bounds time and memory together: about a second and 50 MB for a short conversation, and for a long one
what templates that look back over all messages, or collect their output in a variable, honestly need. It does not
bound the clock (a slower machine takes longer) nor the compilation, whose input is limited in length instead.
"""

from __future__ import annotations

from typing import Any

from specchat.chat.errors import TemplateTooCostly
from specchat.chat.marked_text import MarkedText

# One unit is about one character.
_STEP, _CALL, _MARK, _ITEM = 50, 200, 50, 8
_BASE = 200_000 * _STEP
# Measured on 70 published templates: reading costs at most a tenth of this, the quadratic terms under half.
_PER_CHARACTER = 100
_PER_CHARACTER_AND_MESSAGE = 2
_PER_MESSAGE = 200 * _STEP
_PER_MESSAGE_PAIR = 8 * _STEP


class WorkBudget:
    """What is left to spend on one rendering, in characters."""

    def __init__(self, characters: int = 0, messages: int = 0) -> None:
        self.left = (
            _BASE
            + characters * (_PER_CHARACTER + _PER_CHARACTER_AND_MESSAGE * messages)
            + messages * (_PER_MESSAGE + _PER_MESSAGE_PAIR * messages)
        )

    def spend(self, characters: int) -> None:
        """Pay for so many characters; raises TemplateTooCostly when they are not there."""
        self.left -= characters
        if self.left < 0:
            raise TemplateTooCostly("loops or builds text without end")

    def step(self, expressions: int = 0) -> None:
        """Pay for one step of a loop or one call whose body holds so many expressions."""
        self.spend(_STEP + 10 * expressions)

    def call(self) -> None:
        """Pay for one call."""
        self.spend(_CALL)

    def read(self, value: Any) -> None:
        """Pay for an operation that looks at all of `value`, whatever it holds at whatever depth."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, dict):
                self.spend(_STEP * len(item))
                waiting += item.keys()
                waiting += item.values()
            elif isinstance(item, list | tuple):
                self.spend(_STEP * len(item))
                waiting += item
            else:
                self.hold(item)

    def hold(self, value: Any) -> None:
        """Pay for a new value whose members, if it has any, existed before."""
        if isinstance(value, str):
            self.spend(len(value) + (_MARK * len(value.marks) if isinstance(value, MarkedText) else 0))
        elif isinstance(value, dict | list | tuple):
            self.spend(_ITEM * len(value))
