"""What the worker does with a request: it opens models and answers."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import cast

from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.chat.errors import TemplateError
from specchat.chat.message import Message, Role
from specchat.chat.preferences import PreferencesError
from specchat.chat.room import leaves_room, need_in
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.chat.text import TextStream
from specchat.chat.turn import Turn
from specchat.drafters.method import Method
from specchat.engine.engine import PromptTooLong
from specchat.engine.settings import AnswerSettings, SettingsError
from specchat.engine.stopping import FinishReason
from specchat.llama.context_params import KVType
from specchat.llama.devices import device_memory
from specchat.llama.errors import DoesNotFit, LlamaError
from specchat.llama.library import library
from specchat.retrieval.errors import DatastoreError
from specchat.speculation.mode import AcceptanceMode
from specchat.worker.figures import AnswerFigures
from specchat.worker.given import AnswersGiven
from specchat.worker.messages import (
    Ask,
    Figures,
    Finished,
    Load,
    Loaded,
    LoadFailed,
    Loading,
    Measure,
    Measured,
    Note,
    Prefill,
)
from specchat.worker.outbox import INTERVAL_S, Outbox
from specchat.worker.spans import Provenance

_SENTENCES = (
    CatalogueError, ModelUnavailable, PreferencesError, TemplateError, LlamaError, SettingsError, DatastoreError,
)  # fmt: skip
"""Errors whose message is a sentence for the user."""


class Service:
    """One open model at most, and its answers. `is_cancelled` says by its number whether a turn is to stop."""

    def __init__(self, outbox: Outbox, is_cancelled: Callable[[int], bool]) -> None:
        self._outbox = outbox
        self._is_cancelled = is_cancelled
        self._session: Session | None = None
        self._answers = AnswersGiven()

    def warm(self) -> None:
        """Load llama.cpp before it is asked for; where it can't be, the first `load` says so."""
        with suppress(LlamaError, ImportError, OSError):
            library()

    def load(self, request: Load) -> None:
        """Open a model in the place of the one that is open; says Loaded or LoadFailed."""
        started = time.perf_counter()
        if self._session is not None:
            self._outbox.put(Loading("closing the model before"))
        try:
            self.close()
            self._outbox.put(Loading("starting llama.cpp"))
            library()
            free = device_memory().free_bytes
            self._session = session = self._opened(request)
            self._answers.keep_for(session.engine.vocab.digest)
            loaded = _loaded(session, time.perf_counter() - started)
            self._outbox.put(replace(loaded, own_bytes=max(free - loaded.free_bytes, 0)))
        except Exception as error:
            self.close()
            does_not_fit = isinstance(error, DoesNotFit | MemoryError)
            self._outbox.put(LoadFailed(_sentence(error), does_not_fit, isinstance(error, ModelUnavailable)))

    def _opened(self, request: Load) -> Session:
        return open_session(_model_request(request), told=lambda words: self._outbox.put(Loading(words.rstrip(" …"))))

    def close(self) -> None:
        """Close the model, and give its memory back to the system."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
            del session
            _return_memory()

    def ask(self, request: Ask) -> None:
        """Answer; says Finished at the end, whatever that was."""
        session = self._session
        if session is None:
            self._fail(request, "No model is open. Open one first.")
            return
        try:
            turn = self._begun(session, request)
        except Exception as error:
            self._fail(request, _sentence(error), context_full=isinstance(error, PromptTooLong))
            return
        self._write(session, request, turn)
        # What an answer leaves behind comes after its end, which the user waits for.
        try:
            if turn.answer.token_ids:
                self._take_leave(session, request, turn)
            notes = session.take_notes()
        except Exception as error:
            notes = [_sentence(error)]
        for note in notes:
            self._outbox.put(Note(note))

    def measure(self, request: Measure) -> None:
        """Say how much of a conversation fits the context."""
        session = self._session
        if session is None:
            self._outbox.put(Measured(request.number, error="No model is open. Open one first."))
            return
        try:
            need = need_in(session, self._messages(request.messages), request.head, request.thinking)
            measured = Measured(request.number, need.tokens, need.first, need.pieces, need.crowded)
        except Exception as error:
            measured = Measured(request.number, error=_sentence(error))
        self._outbox.put(measured)

    def _messages(self, told: Sequence[tuple[str, str]]) -> list[Message]:
        return [self._answers.message(Role(role), text) for role, text in told]

    def _begun(self, session: Session, request: Ask) -> Turn:
        turn = self._turn(session, request)
        length, context = turn.answer.timings.prompt_tokens, session.engine.target.n_ctx
        questions = sum(role == Role.USER for role, _ in request.messages)
        if questions > 1 and not leaves_room(length, context, request.max_tokens):
            # Older messages can be left out.
            raise PromptTooLong(f"The prompt has {length:,} tokens and the context holds {context:,}.")
        return turn

    def _turn(self, session: Session, request: Ask) -> Turn:
        return session.ask(
            self._messages(request.messages),
            _answer_settings(session, request),
            stop_strings=request.stop_strings,
            enable_thinking=request.thinking,
            cancelled=lambda: self._is_cancelled(request.turn),
            progress=_Throttled(lambda read, total: self._outbox.put(Prefill(request.turn, read, total))),
        )

    def _write(self, session: Session, request: Ask, turn: Turn) -> None:
        figures = AnswerFigures(session, turn.answer, speculate=request.speculate)
        provenance = Provenance(session.engine.vocab, starts_in_reasoning=turn.starts_in_reasoning)
        reason, error = FinishReason.ERROR, None
        try:
            for progress in turn:
                if progress.step is not None:
                    figures.see(progress.step)
                spans = provenance.spans(progress)
                if progress.step is not None or spans:
                    self._outbox.add(request.turn, spans, figures.now())
            reason = turn.answer.finish_reason or FinishReason.ERROR
        except Exception as fault:
            # What was written stays; the sentence says what became of the rest.
            error = _sentence(fault)
        final = figures.now()
        full = reason is FinishReason.LENGTH and final.context_used >= session.engine.target.n_ctx
        self._outbox.put(Finished(request.turn, reason.value, final, error, full))

    def _take_leave(self, session: Session, request: Ask, turn: Turn) -> None:
        if not request.chat:
            return
        self._answers.add(turn.text, turn.answer.token_ids)
        session.id = request.chat
        if request.speculate:
            session.finish(turn)
        else:
            # Plain decoding was asked for: it says nothing about what drafting costs.
            session.engine.remember(request.chat, turn.answer.transcript)

    def _fail(self, request: Ask, sentence: str, *, context_full: bool = False) -> None:
        self._outbox.put(Finished(request.turn, FinishReason.ERROR.value, Figures(), sentence, context_full))


class _Throttled:
    """Hears about progress at any rate, and passes on what a screen can use: the end always."""

    def __init__(self, say: Callable[[int, int], None]) -> None:
        self._say = say
        self._next_at = 0.0

    def __call__(self, read: int, total: int) -> None:
        now = time.monotonic()
        if read >= total or now >= self._next_at:
            self._next_at = now + INTERVAL_S
            self._say(read, total)


def _loaded(session: Session, seconds: float) -> Loaded:
    engine, memory = session.engine, session.memory()
    return Loaded(
        model=session.entry.id,
        name=session.entry.name,
        target=engine.model.path.name,
        draft=engine.draft_name,
        method=engine.method.value,
        context=engine.target.n_ctx,
        load_s=seconds,
        thinks=session.builder.template.has_thinking_switch,
        notes=tuple(session.take_notes()),
        device=memory.device,
        used_bytes=memory.used_bytes,
        free_bytes=memory.free_bytes,
        template=engine.model.chat_template or "",
    )


@contextmanager
def _as_settings() -> Iterator[None]:
    """A value that can't be meant is the user's affair: its sentence is for them."""
    try:
        yield
    except ValueError as error:
        raise SettingsError(str(error)) from None


@_as_settings()
def _model_request(request: Load) -> ModelRequest:
    return ModelRequest(
        model=request.model or None,
        draft=request.draft,
        method=Method(request.method) if request.method else None,
        draft_tokens=request.draft_tokens,
        tree=request.tree,
        context=request.context,
        threads=request.threads,
        gpu_layers=request.gpu_layers,
        kv_type=_kv_type(request.kv_type),
        draft_kv_type=_kv_type(request.draft_kv_type),
        force=request.force,
    )


def _kv_type(name: str) -> KVType:
    kinds = {kind.name.lower(): kind for kind in KVType}
    if name not in kinds:
        raise SettingsError(f"A KV cache can't be of type {name!r}; there are: {', '.join(kinds)}.")
    return kinds[name]


@_as_settings()
def _answer_settings(session: Session, request: Ask) -> AnswerSettings:
    TextStream(request.stop_strings)
    # Under `exact` the text depends on how far was drafted: a seed is only kept by `coupled`.
    usual = AcceptanceMode.EXACT if request.seed is None else AcceptanceMode.COUPLED
    return AnswerSettings(
        sampling=session.sampling(cast("dict[str, object]", dict(request.sampling)), thinking=request.thinking),
        accept=AcceptanceMode(request.accept) if request.accept else usual,
        seed=request.seed,
        branch=request.branch,
        max_tokens=request.max_tokens,
        speculate=request.speculate,
    )


def _sentence(error: Exception) -> str:
    """The error as a sentence for the user; of a fault of the program, what led to it goes to the log, without text."""
    if isinstance(error, PromptTooLong):
        # What follows is advice for the command line; the chat has its own.
        return str(error).partition(". ")[0].rstrip(".") + "."
    if isinstance(error, _SENTENCES):
        return str(error)
    if isinstance(error, MemoryError):
        return "This machine's memory is full. Close other programs, or choose a smaller model or context."
    name = type(error).__name__
    print(name, *traceback.format_tb(error.__traceback__), sep="\n", file=sys.stderr, flush=True)  # noqa: T201
    return f"This is a fault in specchat ({name}). What led to it is in worker.log, beside the other logs."


def _return_memory() -> None:
    """Free what Python still holds in circles, and let the C library's heap shrink."""
    gc.collect()
    with suppress(OSError, AttributeError):
        # glibc keeps freed memory for itself; other C libraries have no such call.
        ctypes.CDLL(None).malloc_trim(0)
