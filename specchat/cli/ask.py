"""The one-shot command: one prompt, one answer, one exit code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.chat.turn import Turn
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.interrupts import Interrupts
from specchat.cli.output import JsonLinesOutput, JsonOutput, Output, ReaderClosed, Stdout, TextOutput
from specchat.cli.prompt_input import read_prompt
from specchat.cli.report import report, statistics_line
from specchat.engine.settings import AnswerSettings
from specchat.engine.stopping import FinishReason
from specchat.llama.errors import LlamaError
from specchat.speculation.acceptance import AcceptanceMode

_LONG_PROMPT = 512
"""Prompts of more tokens than this show their progress."""


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


@dataclass(slots=True)
class Ask:
    """Runs one question in an environment."""

    question: Question
    environment: Environment
    diagnostics: Diagnostics = field(init=False)
    stdout: Stdout = field(init=False)
    interrupts: Interrupts = field(default_factory=Interrupts)

    def __post_init__(self) -> None:
        self.diagnostics = Diagnostics(self.environment, quiet=self.question.quiet)
        self.stdout = Stdout(self.environment)

    def run(self) -> ExitCode:
        """Answer; raises what `exit_code_of` knows."""
        messages = self._messages()
        with self.interrupts.installed():
            self.diagnostics.progress("loading the model …")
            session = open_session(self.question.request)
            self.diagnostics.end_progress()
            try:
                if self.interrupts.exit_code is not None:
                    return self.interrupts.exit_code
                self._say_notes(session)
                return self._answer(session, messages)
            finally:
                session.close()

    def _say_notes(self, session: Session) -> None:
        for note in session.take_notes():
            self.diagnostics.note(note)

    def _messages(self) -> list[Message]:
        question = self.question
        prompt = read_prompt(question.words, question.files, self.environment, self.diagnostics)
        if not prompt:
            raise UsageError(
                'The full-screen chat is still to be built. Ask one question: specchat "Why is the sky blue?"'
            )
        system = [Message(Role.SYSTEM, question.system)] if question.system else []
        return [*system, Message(Role.USER, prompt)]

    def _settings(self, session: Session) -> AnswerSettings:
        given = self.question.answer
        return AnswerSettings(
            sampling=session.sampling(self.question.sampling),
            accept=given.accept,
            seed=given.seed,
            max_tokens=given.max_tokens,
        )

    def _answer(self, session: Session, messages: Sequence[Message]) -> ExitCode:
        turn = session.ask(
            messages,
            self._settings(session),
            stop_strings=self.question.stop_strings,
            enable_thinking=self.question.enable_thinking,
            cancelled=lambda: self.interrupts.arrived() or self.stdout.reader_is_gone(),
            progress=self._prefill_progress,
        )
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
        if self.stdout.reader_is_gone():
            raise ReaderClosed
        return self.interrupts.exit_code or ExitCode.OK

    def _stream(self, turn: Turn, output: Output) -> None:
        for progress in turn:
            self.diagnostics.reasoning("".join(t for kind, t in progress.parts if kind == "reasoning"))
            if any(kind == "answer" for kind, _ in progress.parts):
                self.diagnostics.end_progress()
                self.diagnostics.end_reasoning()
            output.progress(progress)

    def _finish(self, session: Session, turn: Turn, output: Output, failure: LlamaError | None) -> None:
        accept = self.question.answer.accept
        figures = report(session, turn, accept)
        if failure is not None:
            figures["finish_reason"] = FinishReason.ERROR.value
        self.diagnostics.end_progress()
        self.diagnostics.end_reasoning()
        output.end(figures)
        session.finish(turn)
        self._say_notes(session)
        lossy = accept is AcceptanceMode.TYPICAL
        if self._wants_statistics() or (lossy and not self.question.quiet):
            self.diagnostics.statistics(statistics_line(session, turn, accept))

    def _wants_statistics(self) -> bool:
        return self.question.statistics or (self.environment.stderr_is_terminal and not self.question.quiet)

    def _output(self, session: Session) -> Output:
        if self.question.format is Format.JSON:
            return JsonOutput(self.stdout)
        if self.question.format is Format.JSON_LINES:
            return JsonLinesOutput(self.stdout, session.entry.id)
        return TextOutput(self.stdout, stream=self.question.stream)

    def _prefill_progress(self, read: int, total: int) -> None:
        if total > _LONG_PROMPT:
            self.diagnostics.progress(f"reading the prompt: {read:,} of {total:,} tokens")
