"""Actions on the model and how it is drafted for. Each opens the model again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from specchat.drafters.method import Method
from specchat.tui.actions import nearest
from specchat.worker.messages import Load

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_MOST_DRAFTED: Final = 64


async def choose(app: ChatApp, argument: str) -> None:
    """A model by its id; without one the list."""
    from specchat.tui.screens.models import ModelPicker

    if argument:
        _open(app, _other(app, argument))
        return
    load = app.talk.engine.load

    def chosen(id: str | None) -> None:
        if id is not None:
            _open(app, _other(app, id))
        app.prompt.focus()

    app.push_screen(ModelPicker(app.shelf, load.model if load else "", app.downloads), chosen)


def _other(app: ChatApp, id: str) -> Load:
    """The model with its own draft, method and context; threads and the like stay as they are."""
    present = app.talk.engine.load
    if present is None:
        return Load(id)
    return replace(present, model=id, draft=None, method=None, draft_tokens=None, context=None)


async def draft(app: ChatApp, argument: str) -> None:
    """Another draft model, none, or the catalogue's."""
    load = _present(app)
    if not argument:
        loaded = app.talk.engine.loaded
        name = loaded.draft if loaded and loaded.draft else "none"
        app.say(f"The draft model is {name}. /draft ID|none|auto changes it.")
        return
    _open(app, replace(load, draft=None if argument == "auto" else argument, method=None))


async def method(app: ChatApp, argument: str) -> None:
    """Another drafting method."""
    load = _present(app)
    names = {method.value: None for method in Method}
    if argument not in names:
        near = nearest(argument, names)
        hint = f" Did you mean {near}?" if near else f" There are: {', '.join(names)}."
        raise ValueError((f"There is no method {argument!r}." if argument else "/method NAME.") + hint)
    _open(app, replace(load, method=argument, draft=None, draft_tokens=None))


async def draft_tokens(app: ChatApp, argument: str) -> None:
    """A fixed number of drafted tokens a step, or what pays."""
    load = _present(app)
    if argument == "auto":
        _open(app, replace(load, draft_tokens=None))
        return
    if not argument.isdigit() or int(argument) > _MOST_DRAFTED:
        raise ValueError(f"/k takes a number from 0 to {_MOST_DRAFTED}, or auto, not {argument!r}.")
    # A fixed number is one drafter's: auto can't keep it.
    fixed = None if load.method == "auto" else load.method
    _open(app, replace(load, draft_tokens=int(argument), method=fixed))


async def reload(app: ChatApp, argument: str) -> None:
    """The same once more, with half the context, or without drafting."""
    engine = app.talk.engine
    loads = {"": engine.load, "smaller": engine.smaller(), "plain": engine.plain()}
    if argument not in loads:
        raise ValueError(f"/reload takes smaller or plain, not {argument!r}.")
    load = loads[argument]
    if load is None:
        await choose(app, "")
    else:
        _open(app, load)


def _present(app: ChatApp) -> Load:
    load = app.talk.engine.load
    if load is None:
        raise ValueError("No model was chosen yet: F2, or /model.")
    return load


def _open(app: ChatApp, load: Load) -> None:
    if app.talk.writing is not None:
        raise ValueError("An answer is being written. Stop it first (Esc), then change the model.")
    app.talk.open_model(load)
