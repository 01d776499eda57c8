"""A chat whose context is full."""

from __future__ import annotations

from collections.abc import Sequence

from specchat.chat.message import Message, Role
from specchat.chat.reading import SUMMARY_QUESTION
from specchat.chat.room import leaves_room, need_of
from specchat.tui.keymap import resolve
from specchat.worker.messages import Ask, Figures, Finished, Measure, Measured, Request
from tests.tui.scripted import Chat, ScriptedWorker
from tests.tui.seeing import on_screen

TALL = (90, 60)


KEY = resolve()["trim"][0]


REFUSAL = "The prompt has 5,000 tokens and the context holds 4,096."


class FullWorker(ScriptedWorker):
    """Answers until the conversation has `most` messages, and measures as a real one does."""

    def __init__(self, most: int = 5, *, fits: bool = True, pieces: int = 1) -> None:
        super().__init__()
        self.most, self.fits, self.pieces = most, fits, pieces

    def answer(self, ask: Ask, text: str | None = None) -> None:
        length = len(ask.messages) - (2 if ask.messages[0][1] == SUMMARY_QUESTION else 0)
        if length > self.most and text is None:
            self.say(Finished(ask.turn, "error", Figures(), REFUSAL, context_full=True))
        else:
            super().answer(ask, text)

    def send(self, request: Request) -> None:
        super().send(request)
        if isinstance(request, Measure):
            first = request.head + (2 * max(self.pieces, 1) if len(request.messages) - request.head > 2 else 0)
            pieces = tuple(first - 2 * left for left in reversed(range(self.pieces)))
            self.say(Measured(request.number, 5000, first if self.fits else None, pieces))


CONTEXT = 4096
"""Tokens that the scripted model holds."""


class CountingWorker(ScriptedWorker):
    """Refuses, measures and answers as a real one does; every character is a token."""

    def answer(self, ask: Ask, text: str | None = None) -> None:
        length = sum(len(text) for _, text in ask.messages)
        if length > CONTEXT or not leaves_room(length, CONTEXT, ask.max_tokens):
            self.say(Finished(ask.turn, "error", Figures(), f"The prompt has {length:,} tokens.", context_full=True))
        else:
            super().answer(ask, text)

    def send(self, request: Request) -> None:
        super().send(request)
        if isinstance(request, Measure):
            messages = [Message(Role(role), text) for role, text in request.messages]
            need = need_of(messages, request.head, CONTEXT, _characters, _characters)
            self.say(Measured(request.number, need.tokens, need.first, need.pieces))


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def told(running: Chat) -> list[str]:
    return [text for _, text in running.worker.asks()[-1].messages]


def read(running: Chat) -> str:
    """What can be read, in one line."""
    return " ".join(on_screen(running).replace("▌", " ").replace("▏", " ").split())


async def said_in_passing(running: Chat, sentence: str) -> None:
    """Wait until it is said in passing."""
    for _ in range(100):
        if any(sentence in toast for toast in running.toasts):
            return
        await running.pilot.pause(0.02)
    raise AssertionError(running.toasts)


async def fill(running: Chat) -> None:
    """Ask until there is no room."""
    for question in ("One", "Two", "Three", "Four"):
        await running.submit(question)
    await running.settle()
