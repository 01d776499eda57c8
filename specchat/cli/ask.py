"""The one-shot command: one prompt, one answer, one exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from specchat.catalogue.hub_errors import Cancelled
from specchat.catalogue.sources import LocalFile
from specchat.chat.amounts import size
from specchat.chat.continuing import model_of
from specchat.chat.conversation import Chat
from specchat.chat.models import DEMO, Models, size_of
from specchat.chat.preferences import read_preferences
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.chat.store_file import StoreError
from specchat.chat.turn import Turn
from specchat.cli.asking import Asking
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.interrupts import Interrupts
from specchat.cli.obtain import Obtaining
from specchat.cli.output import JsonLinesOutput, JsonOutput, Output, ReaderClosed, Stdout, TextOutput
from specchat.cli.prompt_input import read_prompt
from specchat.cli.recording import Recording
from specchat.cli.report import report, statistics_line
from specchat.cli.wanted import options_of, settings_of, wanted
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.engine.settings import AnswerSettings
from specchat.engine.stopping import FinishReason
from specchat.llama.errors import LlamaError
from specchat.speculation.mode import AcceptanceMode


class Format(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    JSON_LINES = "jsonl"


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that one call of the command asks for."""

    request: ModelRequest
    answer: AnswerSettings
    sampling: Mapping[str, Any]
    """The sampler settings that the user chose, by their names in SamplingParams."""
    words: Sequence[str] = ()
    files: Sequence[Path] = ()
    system: str | None = None
    stop_strings: Sequence[str] = ()
    enable_thinking: bool | None = None
    format: Format = Format.TEXT
    stream: bool = True
    statistics: bool = False
    quiet: bool = False
    resume: bool = False
    """Go on with the latest conversation."""
    chat: str | None = None
    """Go on with this conversation."""
    yes: bool = False
    """Download what is missing without asking."""
    offline: bool = False


@dataclass(slots=True)
class Ask:
    """Runs one question in an environment."""

    question: Question
    environment: Environment
    diagnostics: Diagnostics = field(init=False)
    stdout: Stdout = field(init=False)
    interrupts: Interrupts = field(default_factory=Interrupts)
    recording: Recording | None = field(default=None, init=False)
    _kept_name: str | None = field(default=None, init=False)
    """Under which the model is kept with the conversation, where it has no id."""

    def __post_init__(self) -> None:
        self.diagnostics = Diagnostics(self.environment, quiet=self.question.quiet)
        self.stdout = Stdout(self.environment)

    def run(self) -> ExitCode:
        """Answer; raises what `exit_code_of` knows."""
        question = self.question
        prompt = read_prompt(question.words, question.files, self.environment, self.diagnostics)
        if not prompt:
            raise UsageError('There is no question. Write one: specchat "Why is the sky blue?"')
        self.recording = self._open_recording()
        try:
            with self.interrupts.installed():
                session = self._open(self._with_files())
                try:
                    if self.interrupts.exit_code is not None:
                        return self.interrupts.exit_code
                    self._say_notes(session)
                    code = self._answer(session, prompt)
                finally:
                    session.close()
                self._offer_better(session.entry.id)
                return code
        except Cancelled as error:
            self.diagnostics.error(str(error))
            return self.interrupts.exit_code or ExitCode.INTERRUPTED
        finally:
            if self.recording is not None:
                self.recording.close()

    def _open_recording(self) -> Recording | None:
        """Where the exchange is kept: always when it continues one, else when somebody sits at the terminal."""
        question, environment = self.question, self.environment
        if question.resume or question.chat is not None:
            recording = Recording.continuing(question.chat)
        else:
            at_terminal = environment.stdin_is_terminal and environment.stdout_is_terminal
            if not at_terminal or not read_preferences().keep_questions:
                return None
            try:
                recording = Recording.of_new()
            except StoreError as error:
                self.diagnostics.note(f"{error} The answer is not kept.")
                return None
        for note in recording.store.notes:
            self.diagnostics.note(note)
        return recording

    def _with_files(self) -> ModelRequest:
        """The request, with what it names on this machine."""
        question, request = self.question, self.question.request
        obtaining = Obtaining(
            self.environment,
            self.diagnostics,
            self.interrupts,
            yes=question.yes,
            force=request.force,
            offline=question.offline,
            settings=settings_of(request),
            named=options_of(request),
        )
        models = Models()
        try:
            named = request.model or (model_of(self._chat, models.catalogue) if self._chat else None)
            entry = models.chosen_or_offered(named, obtaining.may_ask)
            if named is None and self._chat is not None and self._chat.model:
                self.diagnostics.note(
                    f"{self._chat.model}, which answered last, was not found here. {entry.name} goes on."
                )
            if isinstance(entry.target, LocalFile) and models.catalogue.entries.get(entry.id) is not entry:
                # By its stem alone a file is not found again.
                self._kept_name = str(entry.target.path.absolute())
            both = wanted(entry, request, models.catalogue)
            obtaining.obtain(
                both.target, models, draft_too=request.method in (Method.DRAFT, *HEAD_METHODS), weighed=both.pair
            )
            if both.named_draft is not None:
                obtaining.obtain(both.named_draft, models, weighed=both.pair)
        finally:
            models.close()
        return replace(request, model=named or entry.id)

    @property
    def _chat(self) -> Chat | None:
        """The conversation that is continued."""
        return None if self.recording is None else self.recording.chat

    def _offer_better(self, used: str) -> None:
        """Where the demo answered since nothing else is here, name the best model that fits, at a terminal."""
        unasked = self.question.request.model is None and used == DEMO
        if not unasked or self.question.quiet or not self.environment.stderr_is_terminal or self.interrupts.arrived():
            return
        models = Models()
        try:
            best = models.best()
        finally:
            models.close()
        if best is not None:
            terms = f"{size(size_of(best))}, {best.license}" if best.license else size(size_of(best))
            self.diagnostics.note(
                f"the demo answered, a very small model. {best.name} fits this machine ({terms}): "
                f"specchat models pull {best.id}"
            )

    def _open(self, request: ModelRequest) -> Session:
        try:
            return open_session(request, told=self.diagnostics.progress)
        finally:
            self.diagnostics.end_progress()

    def _say_notes(self, session: Session) -> None:
        for note in session.take_notes():
            self.diagnostics.note(note)

    def _answer(self, session: Session, prompt: str) -> ExitCode:
        def cancelled() -> bool:
            return self.interrupts.arrived() or self.stdout.reader_is_gone()

        asking = Asking(session, self.question, self.environment, self.diagnostics, cancelled)
        turn = asking.begin(prompt, self.recording)
        if turn is None:
            if asking.stopped is not None and self.question.format is not Format.TEXT:
                self._output(session).end(report(session, asking.stopped, self.question.answer.accept))
            return self._end()
        # Only now: a question that can't be asked is not kept.
        self._record(lambda recording: self._begin(recording, session, prompt))
        output = self._output(session)
        failure: LlamaError | None = None
        try:
            self._stream(turn, output)
        except LlamaError as error:
            # What was written stays; the sentence and the exit code say what became of the rest.
            failure = error
        self._finish(session, turn, output, failure)
        if failure is not None:
            raise failure
        return self._end()

    def _end(self) -> ExitCode:
        if self.stdout.reader_is_gone():
            raise ReaderClosed
        return self.interrupts.exit_code or ExitCode.OK

    def _begin(self, recording: Recording, session: Session, prompt: str) -> None:
        model = self._kept_name or session.entry.id
        session.id = recording.begin(prompt, model=model, system=self.question.system or "")
        if recording.unkept:
            self.diagnostics.note(f"What was left out is left out this time only: {recording.unkept}")

    def _stream(self, turn: Turn, output: Output) -> None:
        for progress in turn:
            self.diagnostics.reasoning("".join(t for kind, t in progress.parts if kind == "reasoning"))
            if any(kind == "answer" for kind, _ in progress.parts):
                self.diagnostics.end_progress()
                self.diagnostics.end_reasoning()
            output.progress(progress)
            self._record(lambda recording: recording.progress(turn))

    def _finish(self, session: Session, turn: Turn, output: Output, failure: LlamaError | None) -> None:
        accept = self.question.answer.accept
        figures = report(session, turn, accept)
        if failure is not None:
            figures["finish_reason"] = FinishReason.ERROR.value
        self.diagnostics.end_progress()
        self.diagnostics.end_reasoning()
        output.end(figures)
        self._record(lambda recording: recording.finish(session, turn, str(figures["finish_reason"])))
        session.finish(turn)
        self._say_notes(session)
        lossy = accept is AcceptanceMode.TYPICAL
        if self._wants_statistics() or (lossy and not self.question.quiet):
            self.diagnostics.statistics(statistics_line(session, turn, accept))

    def _record(self, keep: Callable[[Recording], None]) -> None:
        """Keep something of the answer; where that fails the answer goes on and is no longer kept."""
        if self.recording is None:
            return
        try:
            keep(self.recording)
        except StoreError as error:
            self.diagnostics.note(f"{error} The answer is not kept.")
            self.recording.close()
            self.recording = None

    def _wants_statistics(self) -> bool:
        return self.question.statistics or (self.environment.stderr_is_terminal and not self.question.quiet)

    def _output(self, session: Session) -> Output:
        if self.question.format is Format.JSON:
            return JsonOutput(self.stdout)
        if self.question.format is Format.JSON_LINES:
            return JsonLinesOutput(self.stdout, session.entry.id)
        return TextOutput(self.stdout, stream=self.question.stream)
