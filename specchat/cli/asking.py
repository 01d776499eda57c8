"""The question of one call: what stands before it, and room for it where a conversation has filled the context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from specchat.chat.message import Message, Role
from specchat.chat.preferences import preferences_path, read_preferences
from specchat.chat.reading import Asked
from specchat.chat.room import leaves_room, longest_summary, need_in, with_summary
from specchat.chat.session import Session
from specchat.chat.shortening import ASK, DROP, STOPPED, SUMMARISE, NoPlace, NoSummary, Place, Summarising, place_in
from specchat.chat.turn import Turn
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.recording import Recording
from specchat.engine.engine import PromptTooLong
from specchat.engine.settings import AnswerSettings
from specchat.engine.stopping import FinishReason

if TYPE_CHECKING:
    from specchat.cli.ask import Question

_LONG_PROMPT = 512
"""Prompts of more tokens than this show their progress."""
_NO_ROOM = "What would be left of it leaves no room for an answer either."


@dataclass(slots=True)
class Asking:
    """Begins the answer. `cancelled`: whether to stop, asked again and again."""

    session: Session
    question: Question
    environment: Environment
    diagnostics: Diagnostics
    cancelled: Callable[[], bool]
    stopped: Turn | None = field(default=None, init=False)
    """The answer that was not begun, since it was stopped on the way."""

    def begin(self, prompt: str, recording: Recording | None) -> Turn | None:
        """The answer to `prompt`, not begun to be written; None where it was stopped on the way, see `stopped`.

        Raises TemplateError, LlamaError and its kind PromptTooLong, SettingsError.
        """
        asked = self._asked(prompt, recording)
        questions = sum(message.role is Role.USER for message in asked.messages)
        try:
            turn = self._ask(asked.messages)
        except PromptTooLong:
            if questions == 1 or recording is None:
                raise
        else:
            if questions == 1 or self._leaves_room(turn):
                return turn
        assert recording is not None
        return self._make_room(asked, recording)

    def _leaves_room(self, turn: Turn) -> bool:
        context = self.session.engine.target.n_ctx
        return leaves_room(turn.answer.timings.prompt_tokens, context, self.question.answer.max_tokens)

    def _asked(self, prompt: str, recording: Recording | None) -> Asked:
        system = self.question.system or ""
        if recording is not None and recording.earlier is not None:
            before = recording.earlier.asked(system)
        else:
            head = (Message(Role.SYSTEM, system),) if system else ()
            before = Asked(head, tuple(None for _ in head))
        return Asked((*before.messages, Message(Role.USER, prompt)), (*before.nodes, None))

    def _ask(self, messages: Sequence[Message], *, for_summary: bool = False) -> Turn:
        session, thinking = self.session, self.question.enable_thinking
        settings = self._settings()
        if for_summary:
            settings = replace(settings, max_tokens=longest_summary(session.engine.target.n_ctx))
            # All of those tokens are for the summary, and what ends an answer early does not end it.
            thinking = False if session.builder.template.has_thinking_switch else thinking
        return session.ask(
            messages,
            settings,
            stop_strings=() if for_summary else self.question.stop_strings,
            enable_thinking=thinking,
            cancelled=self.cancelled,
            progress=self._prefill_progress,
        )

    def _settings(self) -> AnswerSettings:
        given = self.question.answer
        return AnswerSettings(
            sampling=self.session.sampling(self.question.sampling, thinking=self.question.enable_thinking),
            accept=given.accept,
            seed=given.seed,
            max_tokens=given.max_tokens,
        )

    def _make_room(self, asked: Asked, recording: Recording) -> Turn | None:
        """Leave the oldest messages out as the user has set, and say so; raises PromptTooLong where that is not set."""
        earlier, context = recording.earlier, self.session.engine.target.n_ctx
        thread, cut = (earlier.thread, earlier.cut) if earlier is not None else ((), None)
        need = need_in(self.session, asked.messages, asked.head, self.question.enable_thinking)
        place = place_in(thread, asked, cut, need, context)
        if isinstance(place, NoPlace):
            raise PromptTooLong(f"{place.sentence} Shorten it or raise --ctx.")
        how = read_preferences().when_full
        if how == ASK:
            raise PromptTooLong(f"{place.full} {_ways_out(recording)}")
        summary = ""
        head: Sequence[Message] = asked.messages[: asked.head]
        if how == SUMMARISE:
            found = self._summary(place, recording)
            if found is None:
                self.stopped = self._ask((*head, *asked.messages[place.first :]))
                return None
            summary, head = found, with_summary(head, found)
        turn = self._ask_behind(head, asked.messages[place.first :], f"{place.full} {_NO_ROOM} {_ways_out(recording)}")
        recording.shorten(place, DROP if how == DROP else SUMMARISE, summary)
        # Also in a quiet run: an answer must not leave out in silence what was said.
        self.diagnostics.end_progress()
        Diagnostics(self.environment).note(place.done(how, "In the chat, /trim all takes that back."))
        return turn

    def _ask_behind(self, head: Sequence[Message], messages: Sequence[Message], no_room: str) -> Turn:
        """Ask what is left; a summary of broken characters may have many more tokens than it was written with."""
        try:
            turn = self._ask((*head, *messages))
        except PromptTooLong:
            raise PromptTooLong(no_room) from None
        if not self._leaves_room(turn):
            raise PromptTooLong(no_room)
        return turn

    def _summary(self, place: Place, recording: Recording) -> str | None:
        if not place.can_be_summarised:
            raise PromptTooLong(f"{place.full} {place.why_no_summary} {_ways_out(recording)}")
        summarising = Summarising(place)
        while summarising.asked:
            self.diagnostics.progress(f"summarising {place.named}{summarising.step} …")
            turn = self._ask(summarising.asked, for_summary=True)
            for _ in turn:
                pass
            if turn.answer.finish_reason is FinishReason.CANCELLED:
                self.diagnostics.note(STOPPED)
                return None
            try:
                summarising.take(turn.text)
            except NoSummary as error:
                raise PromptTooLong(f"{place.full} {error} {_ways_out(recording)}") from None
        return summarising.summary

    def _prefill_progress(self, read: int, total: int) -> None:
        if total > _LONG_PROMPT:
            self.diagnostics.progress(f"reading the prompt: {read:,} of {total:,} tokens")


def _ways_out(recording: Recording) -> str:
    id = f"--chat {recording.chat.id[:8]}" if recording.chat is not None else "-c"
    return (
        f'To leave its oldest messages unread, set when_full = "drop" (or "summarise") under [chat] in '
        f"{preferences_path()}, or open it (specchat {id}) and type /trim. Or raise --ctx."
    )
