"""The conversation's stage: transcript, prompt and what stands around them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from specchat.tui.actions import Situation
from specchat.tui.engine_state import Phase
from specchat.tui.footer import Footer
from specchat.tui.header import Header
from specchat.tui.notice import Notice
from specchat.tui.panel.panel import Panel
from specchat.tui.showing import choice_of, header_facts, status_words
from specchat.tui.stage import Severity
from specchat.tui.transcript import Answer, AnswerRecord, Record, UserRecord
from specchat.worker.messages import Span

if TYPE_CHECKING:
    from specchat.tui.app import ChatApp

_DRAW_EVERY_S: Final = 0.2
"""Header, panel and status are drawn at most this often; text comes first."""
_TOAST_S: Final = {"information": 4, "warning": 6, "error": 10}


class OnScreen:
    """The stage of `specchat.tui.stage`, on the app's lowest screen."""

    def __init__(self, app: ChatApp) -> None:
        self._app = app
        self._answer: Answer | None = None
        self._status_words = ""
        self._drawn_at = 0.0
        self._timer: Timer | None = None

    def load(self, records: Sequence[Record], at: str | None = None) -> None:
        """Show another conversation."""
        self._answer = None
        self._app.transcript.load(records, at)
        self.show_whether_empty()

    def complete(self, records: Sequence[Record]) -> None:
        """Show all of the conversation of which a part is shown."""
        self._answer = None
        self._app.transcript.complete(records)

    def add_user(self, record: UserRecord) -> None:
        """Add a question."""
        message = self._app.transcript.add_user(record.node_id, record.text)
        message.show_branch(*record.branch)
        self.show_whether_empty()

    def begin_answer(self, record: AnswerRecord) -> None:
        """Add an empty answer."""
        self._answer = self._app.transcript.begin_answer(record.node_id, record.model)
        self._answer.record.max_tokens = record.max_tokens
        self._answer.show_branch(*record.branch)

    def append(self, spans: Sequence[Span], tokens: int) -> None:
        """More text of the answer."""
        if self._answer is not None:
            self._answer.append(spans, tokens)

    def status(self, words: str) -> None:
        """What happens before its first word."""
        if self._answer is not None:
            self._answer.show_status(words)

    def finish(self, line: str, reason: str, error: str) -> None:
        """The answer ended."""
        if self._answer is not None:
            history = self._app.talk.history
            self._answer.record.tokens = history[-1][0].tokens if history else 0
            self._answer.finish(line, reason, error)
            self._answer = None

    def say(self, sentence: str, severity: Severity = "information") -> None:
        """A toast."""
        self._app.notify(sentence, severity=severity, markup=False, timeout=_TOAST_S[severity])

    def put_in_prompt(self, text: str) -> None:
        """Put text before what stands in the prompt, unless it stands there already, and go there."""
        prompt = self._app.prompt
        present = prompt.full_text
        if present != text and not present.startswith(f"{text}\n"):
            prompt.set_text(f"{text}\n{present}" if present.strip() else text)
        prompt.focus()

    def offer_reload(self, sentence: str, *, not_here: bool = False) -> None:
        """Say why no model is open, and offer."""
        load = self._app.talk.engine.load
        wanted = load.model if load is not None and not_here else None
        self._app.base.query_one(Notice).offer(sentence, reload=load is not None, wanted=wanted)

    def withdraw_offer(self) -> None:
        """A model is being opened."""
        self._app.base.query_one(Notice).withdraw()

    def offer_room(self, sentence: str, messages: int, *, summarise: bool = False) -> None:
        """Say that the conversation no longer fits, and offer."""
        self._app.base.query_one(Notice).offer_room(sentence, messages, summarise=summarise)

    def withdraw_room(self) -> None:
        """There is room again."""
        if self._app.stands and self._app.base.query_one(Notice).about_room:
            self.withdraw_offer()

    def situation(self) -> Situation:
        """What is going on, as far as it decides which actions make sense."""
        talk, transcript, prompt = self._app.talk, self._app.transcript, self._app.prompt
        focused = self._app.focused
        return Situation(
            generating=talk.busy,
            loaded=talk.engine.phase is Phase.READY,
            failed=talk.engine.phase in (Phase.FAILED, Phase.NONE),
            has_messages=bool(transcript.records),
            no_room=self._app.base.query_one(Notice).about_room,
            on_message=focused is transcript,
            prompt_empty=not prompt.text,
            in_prompt=focused is not None and prompt in focused.ancestors_with_self,
        )

    def changed(self) -> None:
        """Draw what stands around the text, now or soon."""
        if self._timer is not None or not self._app.stands:
            return
        wait = self._drawn_at + _DRAW_EVERY_S - time.monotonic()
        if wait <= 0:
            self.draw()
        else:
            self._timer = self._app.set_timer(wait, self.draw)

    def draw(self) -> None:
        """Draw what stands around the text."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if not self._app.stands:
            return
        self._drawn_at = time.monotonic()
        app, base = self._app, self._app.base
        base.query_one(Header).facts = header_facts(app.talk)
        base.query_one(Footer).situation = app.situation()
        words = status_words(app.talk, app.keys, app.downloads, app.prompt.text)
        if words != self._status_words:
            self._status_words = words
            base.query_one("#status", Static).update(Content(words), layout=False)
        panel = base.query_one(Panel)
        if panel.display:
            panel.show(app.talk.track, choice_of(app.talk))

    def show_whether_empty(self) -> None:
        """A welcome where there is no conversation yet."""
        empty = not self._app.transcript.records
        self._app.base.query_one("#welcome").display = empty
        self._app.transcript.display = not empty
