"""Text as a terminal may be given it."""

from __future__ import annotations

import re

from specchat.chat.text import visible

# Overrides and isolates of direction reorder the rest of the screen's line, borders included; separators of lines and
# paragraphs are taken for line ends by some terminals and not by others.
_UNSEEN = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
_TAB = "    "


def shown(text: str) -> str:
    """`visible` text with characters that reorder or break a line replaced by U+FFFD, and tabs by four spaces."""
    return _UNSEEN.sub("\ufffd", visible(text)).replace("\t", _TAB)
