"""Long pasted text, folded to one word of the prompt until it is sent or edited."""

from __future__ import annotations

import re

FOLDED_FROM = 2000
"""Characters up to which pasted text stays as it is."""

_LABEL = re.compile(r"\[pasted \d+\.\d+k chars(?: #\d+)?\]")


class Pasted:
    """The texts behind labels such as `[pasted 3.1k chars]`. A label that the user types himself is plain text."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str, prompt: str) -> str:
        """A label for `text` that does not stand in `prompt` yet."""
        label = f"[pasted {len(text) / 1000:.1f}k chars]"
        number = 2
        while label in self._texts or label in prompt:
            label = f"[pasted {len(text) / 1000:.1f}k chars #{number}]"
            number += 1
        self._texts[label] = text
        return label

    def expanded(self, prompt: str) -> str:
        """`prompt` with every label replaced by its text, once."""
        return _LABEL.sub(lambda match: self._texts.get(match[0], match[0]), prompt)

    def at(self, line: str, start: int, end: int) -> tuple[int, int, str] | None:
        """The label in `line` that an edit of the columns from `start` to `end` would cut: its columns and its text."""
        for match in _LABEL.finditer(line):
            first, last = match.span()
            inside = start < last and end > first if start < end else first < start < last
            covered = start <= first and end >= last
            if match[0] in self._texts and inside and not covered:
                return first, last, self._texts[match[0]]
        return None

    def forget(self) -> None:
        """The prompt is empty again."""
        self._texts.clear()
