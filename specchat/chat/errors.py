"""What can go wrong between a conversation and its tokens, as sentences for the user."""

from __future__ import annotations

from specchat.chat.text import visible

_MAX_WORDS = 300


class TemplateError(Exception):
    """A chat template that can't be used; the message is a sentence for the user."""


class TemplateRefusal(TemplateError):
    """The template itself refused the conversation (`raise_exception`); `words` are its own."""

    def __init__(self, words: str) -> None:
        words = visible(words)[:_MAX_WORDS]
        super().__init__(
            f"The model's chat template refuses this conversation: {words.strip().rstrip('.')}. "
            "Edit the conversation (/undo, or without a system prompt) or start a new one."
        )
        self.words = words


class TemplateTooCostly(TemplateError):
    """A template asked for more work than any honest one needs."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"The model's chat template was stopped because it {what}; the model file may be damaged or hostile. "
            "Use another copy of this model."
        )
