"""Model output as text: bytes of tokens in, characters that are safe to show out."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """Text that can't steer a terminal: C0 (but newline and tab), DEL and C1 characters are dropped.

    Without its ESC an escape sequence is harmless letters. CR goes too, which turns CR LF into LF and keeps a lone CR
    from overwriting a line. Characters are judged one by one, so text may be cleaned piece by piece.
    """
    return _CONTROLS.sub("", text)


class TextStream:
    """Turns token bytes into text as early as it is certain.

    Bytes of an unfinished UTF-8 character wait for the rest; text that could still become a stop string waits until it
    is decided. The pieces returned, together, are the final text. The stop string completed first ends the text (of
    several completed by the same character, the longest), which is what reading character by character would find:
    the result does not depend on how the bytes were cut.
    """

    def __init__(self, stop_strings: Iterable[str] = ()) -> None:
        self._stops = tuple(dict.fromkeys(stop_strings))
        if "" in self._stops:
            raise ValueError("A stop string may not be empty: it would end every answer before its first word.")
        self._longest = max(map(len, self._stops), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stop_string: str | None = None
        """The stop string that ended the text."""

    @property
    def stopped(self) -> bool:
        """Whether a stop string was met; what is fed after it is ignored."""
        return self.stop_string is not None

    def feed(self, piece: bytes) -> str:
        """The text that became certain with these bytes."""
        return self._advance(self._decoder.decode(piece))

    def finish(self) -> str:
        """What was held back; an unfinished character becomes U+FFFD."""
        certain = self._advance(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return certain + held

    def _advance(self, new: str) -> str:
        if self.stopped:
            return ""
        text = self._held + new
        start = self._find_stop(text)
        if start is None:
            start = len(text) - self._undecided(text)
            self._held = text[start:]
        else:
            self._held = ""
        return text[:start]

    def _find_stop(self, text: str) -> int | None:
        """Where the first completed stop string begins."""
        found = [(at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if not found:
            return None
        _, start, self.stop_string = min(found)
        return start

    def _undecided(self, text: str) -> int:
        """The length of the longest ending that could grow into a stop string."""
        for length in range(min(self._longest - 1, len(text)), 0, -1):
            ending = text[-length:]
            if any(stop.startswith(ending) for stop in self._stops):
                return length
        return 0
