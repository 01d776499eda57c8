"""What the conversation asks of the screen, and of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

from specchat.tui.transcript.records import AnswerRecord, Record, UserRecord
from specchat.worker.messages import Event, Request, Span

Severity = Literal["information", "warning", "error"]


class EngineClient(Protocol):
    """The worker, as `specchat.worker.client.Worker` is."""

    async def start(self) -> None:
        """Start the process."""

    def send(self, request: Request) -> None:
        """Hand over a request without waiting."""

    def __aiter__(self) -> AsyncIterator[Event]:
        """The events, until it is closed."""

    async def close(self) -> None:
        """End the process."""


class Stage(Protocol):
    """The screen."""

    def load(self, records: Sequence[Record], at: str | None = None) -> None:
        """Show this conversation instead of the present one: its end, or the message `at` with the cursor on it."""

    def complete(self, records: Sequence[Record]) -> None:
        """All of the conversation of which a part is shown: what is in sight stays there, and so does the cursor."""

    def add_user(self, record: UserRecord) -> None:
        """Add a question at the end."""

    def begin_answer(self, record: AnswerRecord) -> None:
        """Add an empty answer at the end; what follows is about it."""

    def append(self, spans: Sequence[Span], tokens: int) -> None:
        """More text of the answer, which has so many tokens now."""

    def status(self, words: str) -> None:
        """What happens before the answer's first word."""

    def finish(self, line: str, reason: str, error: str) -> None:
        """The answer ended."""

    def changed(self) -> None:
        """Header, panel and the line of keys may say something else now."""

    def say(self, sentence: str, severity: Severity = "information") -> None:
        """A sentence that goes away by itself."""

    def put_in_prompt(self, text: str) -> None:
        """Put text into the prompt, before what is written there."""

    def offer_reload(self, sentence: str, *, not_here: bool = False) -> None:
        """No model is open: say why, and offer ways to open one, or to fetch what is `not_here`."""

    def withdraw_offer(self) -> None:
        """A model is being opened: the offer has had its time."""

    def offer_room(self, sentence: str, messages: int, *, summarise: bool = False) -> None:
        """The conversation no longer fits: say so, and offer to leave so many messages unread; 0: that can't help.

        `summarise`: offer to have them summarised too.
        """

    def withdraw_room(self) -> None:
        """There is room again, or another conversation: that offer has had its time."""
