"""Actions that only show something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content

from specchat.chat.amounts import size
from specchat.chat.conversation import one_line
from specchat.chat.text import visible
from specchat.tui.choices import DEFAULTS, KEYS
from specchat.tui.panel.panel import Panel
from specchat.tui.wording import answer_line, count, draft_words

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp


async def panel(app: ChatApp, _argument: str) -> None:
    """Show or hide the panel of figures."""
    app.show_panel(not app.query_one(Panel).display)


async def provenance(app: ChatApp, _argument: str) -> None:
    """Mark who wrote what in the answers, or no longer."""
    app.transcript.show_provenance(not app.transcript.provenance_shown)


async def help(app: ChatApp, _argument: str) -> None:
    """Keys and commands."""
    from specchat.tui.screens.help import Help

    app.push_screen(Help(app.keys))


async def palette(app: ChatApp, _argument: str) -> None:
    """The command palette."""
    app.action_command_palette()


async def stats(app: ChatApp, _argument: str) -> None:
    """The figures of all answers since the start."""
    from specchat.tui.screens.reading import Reading

    history = app.talk.history
    if not history:
        raise ValueError("There are no figures yet: ask something first.")
    figures, _ = history[-1]
    lines = [f"{number:>3}  {answer_line(each)}" for number, (each, _) in enumerate(history, start=1)]
    pairs = [
        ("drafted, tested, accepted", f"{figures.drafted:,}, {figures.tested:,}, {figures.accepted:,}"),
        ("steps of the target", f"{figures.steps:,}"),
        ("steps by depth", _tally(figures.depths)),
        ("steps by drafter", _tally(figures.methods)),
        ("reasons", _tally(figures.choices)),
        ("by position", "  ".join(f"{share:.2f}" for share in figures.per_position)),
        ("drafting, verifying", f"{figures.draft_s:.2f} s, {figures.verify_s:.2f} s"),
        ("prompt", f"{figures.prompt_tokens:,} tokens"),
        ("read at", f"{figures.prefill_tok_s:.0f} tok/s" if figures.prefill_tok_s else ""),
    ]
    answers = Content.styled("Answers since the start", "bold $secondary") + Content("\n" + "\n".join(lines))
    app.push_screen(Reading("Figures", _table("The last answer", pairs) + Content("\n\n") + answers))


async def tokens(app: ChatApp, _argument: str) -> None:
    """How full the context is."""
    engine = app.talk.engine
    if engine.loaded is None:
        raise ValueError("No model is open, so there is no context to fill.")
    left = max(engine.loaded.context - engine.context_used, 0)
    app.say(f"{engine.context_used:,} of {engine.loaded.context:,} tokens are in use; {left:,} are left.")


async def show(app: ChatApp, argument: str) -> None:
    """What is in force."""
    from specchat.tui.screens.reading import Reading

    if argument == "draft":
        await provenance(app, "")
        return
    pages = {
        "": _info,
        "info": _info,
        "params": _params,
        "settings": _params,
        "system": _system,
        "template": _template,
    }
    if argument not in pages:
        raise ValueError(f"/show takes info, params, system, template or draft, not {argument!r}.")
    app.push_screen(Reading("What is in force", pages[argument](app)))


def _info(app: ChatApp) -> Content:
    engine, loaded = app.talk.engine, app.talk.engine.loaded
    if loaded is None:
        return Content("No model is open.")
    pairs = [
        ("model", f"{loaded.name} ({loaded.model})"),
        ("file", loaded.target),
        ("draft", draft_words(loaded.draft) if loaded.draft else "none"),
        ("method", loaded.method),
        ("drafted a step", str(engine.load.draft_tokens) if engine.load and engine.load.draft_tokens else "what pays"),
        ("context", f"{count(loaded.context)} tokens"),
        ("device", loaded.device or "CPU"),
        ("memory", f"{size(engine.used_bytes)} in use, {size(engine.free_bytes)} free"),
        ("opened in", f"{loaded.load_s:.1f} s"),
        ("can be told to think", "yes" if loaded.thinks else "no"),
    ]
    return _table("Model", pairs)


def _params(app: ChatApp) -> Content:
    answers = app.talk.answers
    pairs = [(key, answers.shown(key) or f"default ({DEFAULTS[key]}, or the model's own)") for key in KEYS]
    thinking = {None: "auto", True: "on", False: "off"}[answers.thinking]
    return _table("Sampling", [*pairs, ("thinking", thinking)])


def _system(app: ChatApp) -> Content:
    return Content(app.talk.system or "There is no system prompt.")


def _template(app: ChatApp) -> Content:
    loaded = app.talk.engine.loaded
    if loaded is None:
        raise ValueError("No model is open, so there is no chat template to show.")
    head = Content.styled(f"Chat template of {one_line(loaded.name)}, as its file has it", "bold $secondary")
    return Content("\n").join([head, Content(visible(loaded.template) or "It has none.")])


async def log(app: ChatApp, _argument: str) -> None:
    """The logs."""
    from specchat.tui.screens.log import LogScreen

    app.push_screen(LogScreen())


def _table(title: str, pairs: list[tuple[str, str]]) -> Content:
    lines = [Content.styled(title, "bold $secondary")]
    lines += [Content.assemble((f"{name:<28}", "$foreground-muted"), value or "–") for name, value in pairs]
    return Content("\n").join(lines)


def _tally(counts: object) -> str:
    return (
        "  ".join(f"{'–' if name == '' else name}: {steps}" for name, steps in counts.items())
        if isinstance(counts, dict)
        else ""
    )
