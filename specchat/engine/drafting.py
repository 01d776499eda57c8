"""Makes the drafter that the settings ask for, and the target's context that it needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from specchat.drafters.auto import AutoDrafter
from specchat.drafters.base import Drafter, NoDrafter
from specchat.drafters.costs import Costs, PlainRate
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.drafters.model import ModelDrafter
from specchat.drafters.past_text import PastText
from specchat.drafters.suffix import SuffixDrafter
from specchat.engine.heads import HeadPlan, context_for, open_head
from specchat.engine.settings import EngineSettings
from specchat.engine.sizes import draft_params, target_params
from specchat.engine.vocabularies import difference
from specchat.llama.context import Context
from specchat.llama.context_params import ContextParams
from specchat.llama.devices import machine
from specchat.llama.errors import DoesNotFit, LlamaError
from specchat.llama.hidden import HiddenStatesMissing, hidden_functions
from specchat.llama.model import Model
from specchat.llama.tree import can_branch
from specchat.retrieval import shelf

_PAST_TOKENS = 300_000
"""Tokens of past conversations that are kept: their index is built in a tenth of a second, within an answer."""

_WITH_PASSES = (Method.DRAFT, Method.LAYER_SKIP, Method.EARLY_EXIT, *HEAD_METHODS)


class VocabularyMismatch(LlamaError):
    """A draft that can't draft for the target; the message says why."""


class Drafting:
    """Opens what one method needs; `open_models` takes over what must be closed again.

    `notes` hears what could not be done as asked, in sentences for the user.
    """

    def __init__(
        self,
        settings: EngineSettings,
        model: Model,
        threads: int,
        open_models: list[Model | Context],
        notes: list[str],
        head: HeadPlan | None = None,
    ) -> None:
        self._settings = settings
        self._model = model
        self._threads = threads
        self._open = open_models
        self._notes = notes
        self._head = head
        self._asks_for_head = head is not None
        self.past_text: PastText | None = None
        self.draft_name: str | None = None

    def target_context(self) -> Context:
        """The target's context, with as many rows, branches and taps as the method asks for.

        Where it can't hand out what a head reads it is made without, and a note says so. Raises what `Context` raises.
        """
        context = None if self._head is None else self._context_for_head(self._head)
        if context is None:
            self._head, context = None, Context(self._model, self._target_params(None))
        self._open.append(context)
        if self._settings.tree and context.params.n_seq_max == 1:
            self._notes.append(self._why_no_trees())
        return context

    def _why_no_trees(self) -> str:
        if self._head is None:
            return "Only trained heads draft trees, and none drafts here."
        if not can_branch(self._model):
            return (
                f"{self._model.name} keeps a running state or a sliding window, so it can't read trees of drafts: "
                "chains are drafted."
            )
        if not self._head.drafts_trees:
            return "NextN layers draft chains, not trees."
        return "A tree takes two drafted tokens at least: one is a chain."

    def _context_for_head(self, head: HeadPlan) -> Context | None:
        try:
            if head.method is not Method.MEDUSA:
                hidden_functions()
            return context_for(head, self._model, self._target_params(head))
        except DoesNotFit:
            raise
        except HiddenStatesMissing as missing:
            self._notes.append(str(missing))
        except LlamaError as error:
            # The answer is the same without a head, only slower: worth a word, not a refusal.
            self._notes.append(_cannot_draft(error))
        return None

    def _target_params(self, head: HeadPlan | None) -> ContextParams:
        return target_params(
            self._settings,
            n_ctx_train=self._model.n_ctx_train,
            recurrent=self._model.recurrent,
            threads=self._threads,
            layer_inputs=() if head is None else head.layer_inputs,
            nextn=head is not None and head.nextn,
            tree=head is not None and head.drafts_trees and self._settings.tree and can_branch(self._model),
        )

    def _context(self, model: Model, params: ContextParams) -> Context:
        context = Context(model, params)
        self._open.append(context)
        return context

    def drafter(self, target: Context, cancelled: Callable[[], bool]) -> Drafter:
        """The drafter; one that drafts nothing, and a note, where the target's memory can't take drafts back."""
        settings = self._settings
        if settings.depth == 0:
            return NoDrafter()
        if not target.rolls_back():
            self._notes.append(
                f"{self._model.name} keeps a running state that can't be rolled back, so nothing is drafted for it: "
                "it decodes plainly."
            )
            return NoDrafter()
        if settings.method is Method.AUTO:
            return self._chooser(*self._arms(target, cancelled), Method.AUTO)
        drafter = self._named(target, cancelled)
        if not settings.chooses_depth or isinstance(drafter, NoDrafter):
            return drafter
        method, arm = drafter.method, {drafter.method.value: drafter}
        return self._chooser({}, arm, method) if method in _WITH_PASSES else self._chooser(arm, {}, method)

    def _arms(self, target: Context, cancelled: Callable[[], bool]) -> tuple[dict[str, Drafter], dict[str, Drafter]]:
        """What `auto` chooses from: text already seen, the user's own datastores, and the draft model there is."""
        free: dict[str, Drafter] = {Method.SUFFIX.value: self._suffix()}
        if shelf.names():
            from specchat.drafters.rest import RestDrafter
            from specchat.retrieval.build import own_stores

            vocab, name = self._model.vocab, self._model.name
            free[Method.REST.value] = RestDrafter(lambda: own_stores(vocab.digest, name))
        drafter: Drafter = NoDrafter()
        if self._asks_for_head:
            drafter = self._head_drafter(target, cancelled)
        elif self._settings.draft is not None:
            drafter = self._model_drafter(self._settings.draft, target, cancelled)
        return free, {} if isinstance(drafter, NoDrafter) else {drafter.method.value: drafter}

    def _chooser(self, free: dict[str, Drafter], models: dict[str, Drafter], method: Method) -> Drafter:
        drafts = [] if self._settings.draft is None else [self._settings.draft.name, self._settings.draft_kv_type.name]
        # A tree of so many nodes brings and costs something else than a chain.
        drafts += ["tree"] if self._settings.tree else []
        costs = Costs([*self._key(), *drafts], [*free], [*models], self._settings.depth, self._settings.costs)
        return AutoDrafter(costs, free, models, method=method)

    def _key(self) -> list[str]:
        """What a pass of the target costs depends on."""
        settings, model = self._settings, self._model
        size = [str(number) for number in (model.size_bytes, model.n_layer, model.n_embd, self._threads)]
        return [*machine(), model.path.name, *size, str(settings.gpu_layers), settings.kv_type.name]

    def plain_rate(self) -> PlainRate:
        """The measured rate of plain decoding, kept between starts."""
        return PlainRate(self._key(), sparing=not self._settings.chooses_depth, directory=self._settings.costs)

    def _named(self, target: Context, cancelled: Callable[[], bool]) -> Drafter:
        """The one drafter that was asked for."""
        settings = self._settings
        if self._asks_for_head:
            return self._head_drafter(target, cancelled)
        if settings.method in (Method.DRAFT, Method.LAYER_SKIP):
            if settings.draft is None:
                raise LlamaError("Drafting with a model needs one: name it with --draft, or use --method none.")
            return self._model_drafter(settings.draft, target, cancelled)
        if settings.method is Method.EARLY_EXIT:
            return self._early_exit(target)
        return self._text_drafter()

    def _early_exit(self, target: Context) -> Drafter:
        # A method's own modules are imported where it is used: the first token waits for every import.
        from specchat.drafters.early_exit import open_early_exit

        try:
            return open_early_exit(target, gpu_layers=self._settings.gpu_layers)
        except OSError as error:
            # The answer is the same without drafts, only slower: worth a word, not a refusal.
            self._notes.append(
                f"No head for early exit could be written to {error.filename} ({error.strerror}), so the answer is "
                "decoded plainly."
            )
            return NoDrafter()

    def _text_drafter(self) -> Drafter:
        """A drafter that costs no forward pass."""
        settings = self._settings
        if settings.method is Method.PROMPT_LOOKUP:
            from specchat.drafters.prompt_lookup import PromptLookupDrafter

            return PromptLookupDrafter()
        if settings.method is Method.LOOKAHEAD:
            from specchat.drafters.lookahead import LookaheadDrafter

            # Chains only: branches brought no more tokens a pass (measured), and on a CPU they change the rounding.
            return LookaheadDrafter(budget=settings.depth + 1)
        if settings.method is Method.REST:
            from specchat.drafters.rest import RestDrafter
            from specchat.retrieval.build import open_stores

            vocab, name = self._model.vocab, self._model.name
            return RestDrafter(lambda: open_stores(vocab, vocab.digest, name))
        return self._suffix()

    def _suffix(self) -> SuffixDrafter:
        if self._settings.past_text is not None:
            self.past_text = PastText(self._settings.past_text, self._model.vocab.digest, _PAST_TOKENS)
        return SuffixDrafter(self.past_text)

    def close(self) -> None:
        """Close what no drafter owns."""
        if self.past_text is not None:
            self.past_text.close()

    def _head_drafter(self, target: Context, cancelled: Callable[[], bool]) -> Drafter:
        """The trained head; nothing, and a note, where it can't be opened or this build can't drive it."""
        if self._head is None:
            return NoDrafter()
        try:
            drafter = open_head(self._head, self._settings, target, self._open, cancelled)
        except LlamaError as error:
            self._notes.append(_cannot_draft(error))
            return NoDrafter()
        self.draft_name = None if self._head.path is None else self._head.path.name
        return drafter

    def _model_drafter(self, path: Path, target: Context, cancelled: Callable[[], bool]) -> Drafter:
        draft = Model(path, gpu_layers=self._settings.gpu_layers)
        self._open.append(draft)
        why = difference(self._model.vocab, draft.vocab)
        if why is not None:
            raise VocabularyMismatch(
                f"{draft.name} can't draft for {self._model.name}: {why}. Choose a draft of the same family."
            )
        kv_type = self._settings.draft_kv_type
        context = self._context(draft, draft_params(target.n_ctx, threads=self._threads, kv_type=kv_type))
        if not context.rolls_back():
            self._notes.append(f"{draft.name} can't take back rejected tokens, so it can't draft: decoding plainly.")
            return NoDrafter()
        self.draft_name = path.name
        return ModelDrafter(
            context,
            shared_vocabulary=min(self._model.vocab.size, draft.vocab.size),
            is_end_of_generation=self._model.vocab.is_end_of_generation,
            cancelled=cancelled,
            method=Method.DRAFT if self._settings.method is Method.AUTO else self._settings.method,
        )


def _cannot_draft(error: LlamaError) -> str:
    return f"The trained head can't draft; the text is the same without it. {error}"
