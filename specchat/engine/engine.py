"""Loads a target and a drafter, keeps the KV prefix between turns, writes answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from specchat.drafters.base import Drafter, Method, NoDrafter
from specchat.drafters.model import ModelDrafter, keep_common_prefix
from specchat.engine.answer import Answer, Timings
from specchat.engine.loop import Loop
from specchat.engine.settings import DEFAULT_CONTEXT, AnswerSettings, EngineSettings
from specchat.engine.stopping import FinishReason, StopRule, Unwatched, Watcher
from specchat.engine.vocabularies import difference
from specchat.llama.context import Context, ContextParams
from specchat.llama.errors import LlamaError, PrefillCancelled
from specchat.llama.model import Model
from specchat.llama.threads import usable_threads
from specchat.llama.vocab import Vocab
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Step

_DRAFT_UBATCH = 128
"""The draft reads its prompt in smaller pieces: a fourth of the compute buffer, at no loss of speed."""


class VocabularyMismatch(LlamaError):
    """A draft that can't draft for the target; the message says why."""


class PromptTooLong(LlamaError):
    """A prompt that leaves no room for an answer."""


class Engine:
    """A target model and a way to draft for it.

    Raises what `Model` and `Context` raise, and VocabularyMismatch. `notes` are sentences for the user about what
    could not be done as asked.
    """

    def __init__(self, settings: EngineSettings) -> None:
        started = time.perf_counter()
        self.settings = settings
        self.notes: list[str] = []
        self._threads = settings.threads or usable_threads()
        self._cancelled: Callable[[], bool] = lambda: False
        self._open: list[Model | Context] = []
        try:
            self.model = self._load(settings.target)
            self.target = self._target_context()
            self.drafter = self._drafter()
        except BaseException:
            self.close()
            raise
        self.load_s = time.perf_counter() - started

    @property
    def vocab(self) -> Vocab:
        """The target's vocabulary, which is the draft's too."""
        return self.model.vocab

    @property
    def method(self) -> Method:
        """How drafts are made; `none` where what was asked for is not possible."""
        return self.drafter.method

    @property
    def draft_name(self) -> str | None:
        """The draft model's file name; None where no model drafts."""
        draft = self.settings.draft
        return draft.name if draft is not None and self.method is Method.DRAFT else None

    def _load(self, path: Path) -> Model:
        model = Model(path, gpu_layers=self.settings.gpu_layers)
        self._open.append(model)
        return model

    def _context(self, model: Model, params: ContextParams) -> Context:
        context = Context(model, params)
        self._open.append(context)
        return context

    def _target_context(self) -> Context:
        settings = self.settings
        trained = self.model.n_ctx_train or DEFAULT_CONTEXT
        drafts = settings.method is not Method.NONE
        params = ContextParams(
            n_ctx=settings.context or min(trained, DEFAULT_CONTEXT),
            n_outputs_max=settings.draft_tokens + 1 if drafts else 1,
            threads=self._threads,
            n_rs_seq=settings.draft_tokens if drafts and self.model.recurrent else 0,
            kv_type=settings.kv_type,
        )
        return self._context(self.model, params)

    def _drafter(self) -> Drafter:
        settings = self.settings
        if settings.method is Method.NONE or settings.draft_tokens == 0:
            return NoDrafter()
        if not self.target.rolls_back():
            self.notes.append(
                f"{self.model.name} keeps a running state that can't be rolled back, so nothing is drafted for it: "
                "it decodes plainly."
            )
            return NoDrafter()
        if settings.draft is None:
            raise LlamaError("Drafting with a model needs one: name it with --draft, or use --method none.")
        return self._model_drafter(settings.draft)

    def _model_drafter(self, path: Path) -> Drafter:
        draft = self._load(path)
        why = difference(self.vocab, draft.vocab)
        if why is not None:
            raise VocabularyMismatch(
                f"{draft.name} can't draft for {self.model.name}: {why}. Choose a draft of the same family."
            )
        params = ContextParams(n_ctx=self.target.n_ctx, n_outputs_max=1, threads=self._threads, n_ubatch=_DRAFT_UBATCH)
        context = self._context(draft, params)
        if not context.rolls_back():
            self.notes.append(f"{draft.name} can't take back rejected tokens, so it can't draft: decoding plainly.")
            return NoDrafter()
        return ModelDrafter(
            context,
            shared_vocabulary=min(self.vocab.size, draft.vocab.size),
            is_end_of_generation=self.vocab.is_end_of_generation,
            cancelled=lambda: self._cancelled(),
        )

    def answer(
        self,
        prompt: Sequence[int],
        settings: AnswerSettings,
        *,
        watcher: Watcher | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda _read, _all: None,
    ) -> Answer:
        """Write an answer to the token ids `prompt`; nothing is computed before the first step is asked for.

        `progress` hears (tokens read, tokens to read) of the prompt. Raises PromptTooLong; while iterating,
        DecodeFailed.
        """
        if len(prompt) >= self.target.n_ctx:
            raise PromptTooLong(
                f"The prompt has {len(prompt):,} tokens and the context holds {self.target.n_ctx:,}. "
                "Shorten it or raise --ctx."
            )
        self._cancelled = cancelled
        loop = Loop(
            self.target,
            self.drafter,
            Sampler(settings.sampling, acceptance_rule(settings.accept, settings.seed, settings.branch)),
            depth=self.settings.draft_tokens,
            stop=StopRule(self.vocab.is_end_of_generation, settings.max_tokens, watcher or Unwatched()),
            cancelled=cancelled,
        )
        timings = Timings(prompt_tokens=len(prompt))
        return Answer(self._steps(loop, list(prompt), timings, progress), loop, timings)

    def _steps(
        self, loop: Loop, prompt: list[int], timings: Timings, progress: Callable[[int, int], None]
    ) -> Iterator[Step]:
        started = time.perf_counter()
        loop.history = list(prompt)
        try:
            self._prefill(prompt, timings, progress)
            for step in loop.run(prompt):
                if timings.ttft_s is None:
                    timings.ttft_s = time.perf_counter() - started
                yield step
        except PrefillCancelled:
            loop.finish_reason = FinishReason.CANCELLED

    def _prefill(self, prompt: list[int], timings: Timings, progress: Callable[[int, int], None]) -> None:
        """Read all of `prompt` but its last token, which is the first row of the first step."""
        started = time.perf_counter()
        timings.reused_tokens = keep_common_prefix(self.target, prompt, limit=len(prompt) - 1)
        missing = prompt[timings.reused_tokens : -1]
        self.target.prefill(missing, cancelled=self._cancelled, progress=lambda read: progress(read, len(missing)))
        timings.prefill_s = time.perf_counter() - started

    def close(self) -> None:
        """Free everything, contexts before their models."""
        while self._open:
            self._open.pop().close()
