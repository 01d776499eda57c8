"""The registry in the command palette."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from specchat.tui.actions import ACTIONS, Action
from specchat.tui.keymap import keys_shown

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_NOT_HERE = frozenset({"palette", "interrupt", "quit_empty"})


class ActionCommands(Provider):
    """Every action that makes sense now."""

    async def discover(self) -> Hits:
        """All of them, before anything is written."""
        for action in self._possible():
            yield DiscoveryHit(self._shown(action), self._doing(action), text=action.name, help=action.description)

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for action in self._possible():
            score = matcher.match(f"{action.name} {' '.join(action.slash)}")
            if score > 0:
                name = matcher.highlight(action.name)
                yield Hit(score, name, self._doing(action), text=action.name, help=action.description)

    @property
    def _chat(self) -> ChatApp:
        return cast("ChatApp", self.app)

    def _possible(self) -> Iterator[Action]:
        now = self._chat.situation()
        return (action for action in ACTIONS if action.id not in _NOT_HERE and action.slash_when(now))

    def _shown(self, action: Action) -> Content:
        keys = keys_shown(action.id, self._chat.keys)
        return Content.assemble(action.name, (f"  {keys}" if keys else "", "$foreground-muted"))

    def _doing(self, action: Action) -> partial[Coroutine[object, object, bool]]:
        return partial(self._chat.perform, action, "")
