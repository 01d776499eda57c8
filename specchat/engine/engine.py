"""Loads a target and a drafter, keeps the KV prefix between turns, writes answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from specchat.drafters.auto import AutoDrafter
from specchat.drafters.base import Drafter, NoDrafter, StateReader
from specchat.drafters.costs import PlainRate
from specchat.drafters.method import Method
from specchat.drafters.prefix import keep_common_prefix
from specchat.engine.answer import Answer, Timings
from specchat.engine.drafting import Drafting, VocabularyMismatch
from specchat.engine.heads import planned_head
from specchat.engine.loop import Loop
from specchat.engine.settings import AnswerSettings, EngineSettings, SettingsError
from specchat.engine.stopping import FinishReason, StopRule, Unwatched, Watcher
from specchat.llama.context import Context
from specchat.llama.errors import LlamaError, PrefillCancelled
from specchat.llama.model import Model
from specchat.llama.threads import usable_threads
from specchat.llama.vocab import Vocab
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Step

__all__ = ["Engine", "PromptTooLong", "VocabularyMismatch"]


class PromptTooLong(LlamaError):
    """A prompt that leaves no room for an answer."""


class Engine:
    """A target model and a way to draft for it.

    Raises what `Model` and `Context` raise, VocabularyMismatch and HeadMismatch.
    """

    def __init__(self, settings: EngineSettings) -> None:
        started = time.perf_counter()
        self.settings = settings
        self._notes: list[str] = []
        self._said: set[str] = set()
        self._cancelled: Callable[[], bool] = lambda: False
        self._open: list[Model | Context] = []
        self.drafter: Drafter = NoDrafter()
        self._plain_rate: PlainRate | None = None
        try:
            head = planned_head(settings)
            with_nextn = head is not None and head.in_target
            self.model = Model(settings.target, gpu_layers=settings.gpu_layers, load_mtp=with_nextn)
            self._open.append(self.model)
            threads = settings.threads or usable_threads()
            self._drafting = Drafting(settings, self.model, threads, self._open, self._notes, head)
            self.target = self._drafting.target_context()
            self.drafter = self._drafting.drafter(self.target, lambda: self._cancelled())
            self._plain_rate = self._drafting.plain_rate()
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
        return self._drafting.draft_name

    @property
    def drafts_with(self) -> str:
        """The method, and what it drafts from where that has a name."""
        name = getattr(self.drafter, "name", None)
        return name if isinstance(name, str) else self.method.value

    @property
    def choices(self) -> Mapping[str, int]:
        """Steps by the reason of their choice, where drafter and depth are chosen; empty elsewhere."""
        drafter = self.drafter
        return {why.value: n for why, n in drafter.why.items()} if isinstance(drafter, AutoDrafter) else {}

    @property
    def draft_bytes(self) -> int:
        """Memory of the drafter's own weights; 0 where it has none."""
        extra = getattr(self.drafter, "extra_bytes", None)
        if isinstance(extra, int):
            return extra
        return sum(model.size_bytes for model in self._open if isinstance(model, Model) and model is not self.model)

    def plain_tok_s(self, context: int) -> float | None:
        """Tokens a second of plain decoding after `context` tokens, as measured here; None where it never was."""
        return None if self._plain_rate is None else self._plain_rate.baseline.tok_s(context)

    def take_notes(self) -> list[str]:
        """What there is to say that was not said before; some is known only after an answer."""
        notes, self._notes[:] = list(self._notes), []
        for source in (self.drafter, self._drafting.past_text):
            for sentence in _sentences_of(source):
                if sentence not in self._said:
                    notes.append(sentence)
        self._said.update(notes)
        return notes

    def remember(self, conversation_id: str, ids: Sequence[int]) -> None:
        """Keep the text of a conversation for later ones to draft from, where the settings allow it."""
        if self._drafting.past_text is not None:
            self._drafting.past_text.add(conversation_id, ids)

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

        `progress` hears (tokens read, tokens to read) of the prompt. Raises PromptTooLong and SettingsError; while
        iterating, DecodeFailed.
        """
        if len(prompt) >= self.target.n_ctx:
            raise PromptTooLong(
                f"The prompt has {len(prompt):,} tokens and the context holds {self.target.n_ctx:,}. "
                "Shorten it or raise --ctx."
            )
        self._require_known_tokens(settings.sampling.logit_bias)
        self._cancelled = cancelled
        sampler = Sampler(settings.sampling, acceptance_rule(settings.accept, settings.seed, settings.branch))
        self._say_where_trees_are_chains(sampler)
        loop = Loop(
            self.target,
            # The engine's own drafter sees nothing of a plain answer; it reads that text when it next begins.
            self.drafter if settings.speculate else NoDrafter(),
            sampler,
            # A running state forgets no more tokens than it keeps snapshots.
            depth=min(self.settings.depth, self.target.most_taken_back) if settings.speculate else 0,
            stop=StopRule(self.vocab.is_end_of_generation, settings.max_tokens, watcher or Unwatched()),
            cancelled=cancelled,
            plain_rate=self._plain_rate,
        )
        timings = Timings(prompt_tokens=len(prompt))
        return Answer(self._steps(loop, list(prompt), timings, progress), loop, timings)

    def _say_where_trees_are_chains(self, sampler: Sampler) -> None:
        sentence = "With a seed (--accept coupled) chains are drafted, not trees: they are kept more often there."
        if self.target.params.n_seq_max > 1 and not sampler.may_branch and sentence not in {*self._said, *self._notes}:
            self._notes.append(sentence)

    def _require_known_tokens(self, biased: Iterable[int]) -> None:
        unknown = next((token for token in biased if token >= self.vocab.size), None)
        if unknown is not None:
            raise SettingsError(
                f"--logit-bias names token {unknown:,}, but {self.model.name} has {self.vocab.size:,} tokens, counted "
                "from 0."
            )

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
        limit = len(prompt) - 1
        if isinstance(self.drafter, StateReader):
            limit = min(limit, self.drafter.keeps(prompt))
        timings.reused_tokens = keep_common_prefix(self.target, prompt, limit=limit)
        missing = prompt[timings.reused_tokens : -1]
        self.target.prefill(missing, cancelled=self._cancelled, progress=lambda read: progress(read, len(missing)))
        timings.prefill_s = time.perf_counter() - started

    def close(self) -> None:
        """Free everything, contexts before their models."""
        self.drafter.close()
        if self._plain_rate is not None:
            self._plain_rate.keep()
            self._drafting.close()
        while self._open:
            self._open.pop().close()


def _sentences_of(source: object) -> list[str]:
    """The notes of a drafter or a store: some keep one, some several, most none."""
    one, several = getattr(source, "note", None), getattr(source, "notes", ())
    return [*([one] if isinstance(one, str) else []), *several]
