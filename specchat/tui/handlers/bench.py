"""The comparison of drafting with plain decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from specchat.bench.comparison import Comparison
from specchat.tui.comparing import TOKENS, compare, in_one_line, table_of

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_FEWEST: Final = 16
_MOST: Final = 1024


async def bench(app: ChatApp, argument: str) -> None:
    """Measure, without holding up the screen; `last` shows what was measured before."""
    if argument == "last":
        if app.compared is None:
            raise ValueError("Nothing was measured yet: /bench.")
        _show(app, app.compared)
        return
    if argument and not (argument.isdigit() and _FEWEST <= int(argument) <= _MOST):
        raise ValueError(f"/bench takes a number of tokens from {_FEWEST} to {_MOST:,}, or last, not {argument!r}.")
    loaded = app.talk.engine.loaded
    if loaded is None:
        raise ValueError("No model is open, so there is nothing to measure.")
    if loaded.method == "none":
        raise ValueError("Nothing is drafted, so there is nothing to compare. /method auto changes that.")
    if app.talk.busy:
        raise ValueError("An answer is being written. Stop it first (Esc).")
    app.run_worker(app.attempt(_measured(app, loaded.method, int(argument) if argument else TOKENS)), group="bench")


async def _measured(app: ChatApp, method: str, tokens: int) -> None:
    comparison = await compare(app.talk, method, tokens)
    if comparison is None:
        app.say("The measurement was stopped.")
        return
    app.compared = comparison
    if app.screen is app.base and not app.prompt.text:
        _show(app, comparison)
    else:
        # Not over what the user is at.
        app.say(f"{in_one_line(comparison)} /bench last shows all of it.")


def _show(app: ChatApp, comparison: Comparison) -> None:
    from specchat.tui.screens.reading import Reading

    app.push_screen(Reading("What drafting is worth", table_of(comparison)))
