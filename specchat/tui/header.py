"""The first line: what answers, how full memory and context are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from specchat.chat.amounts import size
from specchat.tui.panel.strokes import meter
from specchat.tui.wording import count

_METER: Final = 8
_NARROW, _WIDE = 70, 100
_ALARM: Final = 0.9
"""From this share on a meter warns."""


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """What the header says."""

    model: str = ""
    draft: str = ""
    method: str = ""
    plain_next: bool = False
    """The next answer is decoded plainly, to compare."""
    memory_name: str = "memory"
    memory_used: int = 0
    memory_free: int = 0
    context_used: int = 0
    context: int = 0
    state: str = ""
    """Instead of the model while there is none."""


class Header(Widget):
    """One line at the top; it drops what doesn't fit, the least needed first."""

    facts: reactive[HeaderFacts] = reactive(HeaderFacts())

    def render(self) -> Content:
        """The line, as wide as there is room."""
        return header_line(self.facts, self.size.width - 2)


def header_line(facts: HeaderFacts, width: int) -> Content:
    """The header's text in exactly `width` cells, or fewer if there is little to say."""
    right = _meters(facts, width).truncate(width)
    room = width - right.cell_length - (2 if right.cell_length else 0)
    left = _fitting(facts, room, width)
    return left + Content(" " * max(width - left.cell_length - right.cell_length, 0)) + right


def _fitting(facts: HeaderFacts, room: int, width: int) -> Content:
    name = Content.styled("specchat", "bold $primary")
    if not facts.model:
        words = Content.assemble(name, "  ", (facts.state, "$foreground-muted"))
        return words.truncate(max(room, 0), ellipsis=True)
    model = Content.styled(facts.model, "$foreground")
    draft = Content.styled(f" ← {facts.draft}" if facts.draft else "", "$foreground-muted")
    method = Content.styled(f" · {facts.method}" if facts.method else "", "$foreground-muted")
    if facts.plain_next:
        method = method + Content.styled(" · next: plain", "bold $warning")
    candidates = [name + Content("  ") + model + draft + method, model + draft + method, model + method, model]
    if width < _NARROW:
        candidates = candidates[2:]
    return next(
        (line for line in candidates if line.cell_length <= room), candidates[-1].truncate(max(room, 0), ellipsis=True)
    )


def _meters(facts: HeaderFacts, width: int) -> Content:
    parts = []
    whole = facts.memory_used + facts.memory_free
    if whole and width >= _WIDE:
        words = f"{facts.memory_name} {size(facts.memory_used)}/{size(whole)} "
        parts.append(_metered(words, facts.memory_used / whole, _METER))
    if facts.context:
        words = f"ctx {count(facts.context_used)}/{count(facts.context)} "
        parts.append(_metered(words, facts.context_used / facts.context, _METER if width >= _NARROW else 0))
    return Content("   ").join(parts)


def _metered(words: str, share: float, width: int) -> Content:
    full, empty = meter(share, width)
    color = "$warning" if share >= _ALARM else "$primary"
    return Content.assemble(
        (words, "$warning" if share >= _ALARM else "$foreground-muted"), (full, color), (empty, "$foreground 20%")
    )
