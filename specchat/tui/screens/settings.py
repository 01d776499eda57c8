"""The system prompt and how answers are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Label, Static, TextArea

from specchat.tui.choices import DEFAULTS, KEYS, AnswerChoices
from specchat.tui.screens.dialog import Dialog

_THINKING = {"on": True, "off": False, "auto": None}


@dataclass(frozen=True, slots=True)
class Settings:
    """What the screen shows and returns."""

    system: str
    answers: AnswerChoices


class SettingsScreen(Dialog[Settings]):
    """One field a parameter; what can't be meant is said below them, and nothing is kept until all can."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "keep", "keep", priority=True)]
    title_text = "System prompt and sampling"
    hint = "^S or enter in a field keep   tab next field   esc leave as it was"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def body(self) -> ComposeResult:
        """The fields."""
        with VerticalScroll(id="fields", can_focus=False):
            yield Label("System prompt, from the next answer on", markup=False)
            yield TextArea(self._settings.system, id="system", compact=True, tab_behavior="focus")
            for key in KEYS:
                with Horizontal(classes="field"):
                    yield Label(key, markup=False)
                    value = self._settings.answers.shown(key)
                    yield Input(value, placeholder=f"default: {DEFAULTS[key]}", id=key, select_on_focus=False)
            with Horizontal(classes="field"):
                yield Label("thinking", markup=False)
                word = next(word for word, value in _THINKING.items() if value is self._settings.answers.thinking)
                yield Input("" if word == "auto" else word, placeholder="on, off, or auto", id="thinking")
        yield Static(id="said", classes="complaint", markup=False)

    def on_mount(self) -> None:
        """Begin in the system prompt."""
        self.query_one("#system").focus()

    def on_input_submitted(self, _event: Input.Submitted) -> None:
        """Enter keeps."""
        self.action_keep()

    def action_keep(self) -> None:
        """Take everything, or say what can't be meant and go there."""
        answers = AnswerChoices()
        for key in (*KEYS, "thinking"):
            field = self.query_one(f"#{key}", Input)
            try:
                answers = _with(answers, key, field.value)
            except ValueError as error:
                self.query_one("#said", Static).update(Content(str(error)))
                field.focus()
                return
        self.dismiss(Settings(self.query_one("#system", TextArea).text.strip(), answers))


def _with(answers: AnswerChoices, key: str, text: str) -> AnswerChoices:
    if key != "thinking":
        return answers.with_value(key, text)
    return replace(answers, thinking=thinking(text or "auto"))


def thinking(word: str) -> bool | None:
    """What `on`, `off` or `auto` says; raises ValueError with a sentence."""
    word = word.strip().lower()
    if word not in _THINKING:
        raise ValueError(f"thinking is {word!r}, but it must be on, off or auto.")
    return _THINKING[word]
