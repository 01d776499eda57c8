"""Actions on the model and how it is drafted for. Each opens the model again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from specchat.drafters.method import Method
from specchat.tui.actions import BY_ID, Action, nearest
from specchat.tui.notice import Notice
from specchat.tui.shelf import Fit
from specchat.tui.wording import draft_words
from specchat.worker.messages import Load

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_MOST_DRAFTED: Final = 64


async def choose(app: ChatApp, argument: str) -> None:
    """A model by its id; without one the list."""
    if not argument:
        _pick(app, BY_ID["model"])
        return
    _require_quiet(app)
    if await _here(app, argument, BY_ID["model"]):
        _open(app, _other(app, argument))


def _pick(app: ChatApp, action: Action, at: str = "", *, fetch: bool = False) -> None:
    """The list, over which `action` takes what is chosen; `at` and `fetch` are those of the list."""
    from specchat.tui.screens.models import ModelPicker

    engine = app.talk.engine
    present = engine.loaded.model if engine.loaded else engine.load.model if engine.load else ""

    async def chosen(id: str | None) -> None:
        app.prompt.focus()
        if id is not None:
            await app.perform(action, id)

    picker = ModelPicker(app.shelf, present, app.downloads, freed=engine.own_bytes, at=at, fetch=fetch)
    app.push_screen(picker, chosen)


async def _here(app: ChatApp, name: str, action: Action) -> bool:
    """Whether there is a model of this name here; where it could be fetched, that is offered instead.

    Before anything is closed for it. Raises ShelfError for a name that means nothing.
    """
    row = await asyncio.to_thread(app.shelf.find, name)
    if not row.here:
        listed = any(known.id == name for known in await asyncio.to_thread(app.shelf.rows))
        app.say(f"{row.name} is not on this machine yet.")
        _pick(app, action, name, fetch=not listed)
    return row.here


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
        name = draft_words(loaded.draft) if loaded and loaded.draft else "none"
        app.say(f"The draft model is: {name}. /draft ID|none|auto changes it.")
        return
    _require_quiet(app)
    if argument in ("auto", "none") or await _here(app, argument, BY_ID["draft"]):
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
    """The same once more, with half or twice the context, or without drafting; or fetch what is missing for it."""
    engine, to_fetch = app.talk.engine, app.base.query_one(Notice).to_fetch
    if argument not in ("", "smaller", "larger", "plain"):
        raise ValueError(f"/reload takes smaller, larger or plain, not {argument!r}.")
    if to_fetch is not None:
        _pick(app, BY_ID["model"], to_fetch.id, fetch=True)
        return
    _require_quiet(app)
    if argument == "larger":
        load: Load | None = await _larger(app)
    else:
        load = {"": engine.load, "smaller": engine.smaller(), "plain": engine.plain()}[argument]
    if load is None:
        await choose(app, "")
    else:
        _open(app, load)


async def _larger(app: ChatApp) -> Load:
    """With twice the context, as far as the model was trained for it and memory goes; raises ValueError at the end."""
    load, engine, shelf = _present(app), app.talk.engine, app.shelf

    def judged() -> Fit:
        shelf.look_again(engine.own_bytes)
        try:
            return shelf.fit(load.model or (engine.loaded.model if engine.loaded else ""))
        finally:
            shelf.rest()

    app.say("Looking how much context fits …")
    most = (await asyncio.to_thread(judged)).largest
    larger = engine.larger(most or 2 * engine.context)
    if larger is None:
        raise ValueError(
            f"The context has {engine.context:,} tokens, and {most:,} are the most that this model was trained for and "
            "that fit here. /new begins another conversation, and F2 chooses another model."
        )
    return larger


def _present(app: ChatApp) -> Load:
    load = app.talk.engine.load
    if load is None:
        raise ValueError("No model was chosen yet: F2, or /model.")
    return load


def _require_quiet(app: ChatApp) -> None:
    if app.talk.writing is not None or app.talk.aside is not None:
        raise ValueError("An answer is being written. Stop it first (Esc), then change the model.")


def _open(app: ChatApp, load: Load) -> None:
    # Once more: an answer may have begun while a name was looked up.
    _require_quiet(app)
    app.talk.open_model(load)
