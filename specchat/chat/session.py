"""From what a user asked for to an open model: the composition both front ends share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from specchat.catalogue.entries import Catalogue, CutFromTarget, Entry
from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.locate import locate
from specchat.chat.message import Message
from specchat.chat.prompt import PromptBuilder
from specchat.chat.template import ChatTemplate
from specchat.chat.turn import StopStrings, Turn
from specchat.drafters.base import Method
from specchat.drafters.layer_skip import cut_draft, draft_directory
from specchat.engine.engine import Engine
from specchat.engine.settings import DEFAULT_DRAFT_TOKENS, AnswerSettings, EngineSettings, SettingsError
from specchat.llama.context import KVType
from specchat.llama.devices import DeviceMemory, device_memory
from specchat.llama.errors import LlamaError
from specchat.speculation.params import SamplingParams

DEFAULT_MODEL = "demo"
NO_DRAFT = "none"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What to open; None stands for the catalogue's or the program's default.

    Raises SettingsError for choices that contradict each other.
    """

    model: str = DEFAULT_MODEL
    draft: str | None = None
    """A model's name or path, or `none`."""
    method: Method | None = None
    draft_tokens: int | None = None
    context: int | None = None
    threads: int | None = None
    gpu_layers: int = -1
    kv_type: KVType = KVType.F16

    def __post_init__(self) -> None:
        drafts = self.method not in (None, Method.NONE)
        if self.method is Method.NONE and self.draft not in (None, NO_DRAFT):
            raise SettingsError("--method none decodes plainly, but --draft names a draft model: use one of the two.")
        if self.method is Method.NONE and self.draft_tokens:
            raise SettingsError(
                "--method none decodes plainly, but --draft-tokens asks for drafts: use one of the two."
            )
        if drafts and self.draft == NO_DRAFT:
            raise SettingsError(f"--method {self.method} drafts with a model, but --draft none forbids one.")


@dataclass(slots=True)
class Session:
    """An open model and how to talk to it. Raises TemplateError for a model whose template can't be used."""

    entry: Entry
    engine: Engine
    notes: list[str]
    """Sentences for the user about what could not be done as asked."""
    builder: PromptBuilder = field(init=False)

    def __post_init__(self) -> None:
        template = ChatTemplate(self.engine.model.chat_template, self.engine.vocab)
        self.builder = PromptBuilder(template, self.engine.vocab)
        self.notes += self.engine.notes
        if template.note:
            self.notes.append(template.note)

    def sampling(self, chosen: Mapping[str, object]) -> SamplingParams:
        """The sampler chain: what the user chose, over the entry's defaults, over the program's.

        Raises CatalogueError where the entry's are wrong, ValueError where the user's are.
        """
        try:
            defaults = SamplingParams(**self.entry.sampling)  # type: ignore[arg-type]
        except (TypeError, ValueError) as error:
            raise CatalogueError(f"The catalogue's [{self.entry.id}.sampling] is wrong: {error}") from None
        return replace(defaults, **chosen)  # type: ignore[arg-type]

    def ask(
        self,
        messages: Sequence[Message],
        settings: AnswerSettings,
        *,
        stop_strings: Sequence[str] = (),
        enable_thinking: bool | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        progress: Callable[[int, int], None] = lambda _read, _all: None,
    ) -> Turn:
        """Begin the answer to `messages`; raises TemplateError and PromptTooLong."""
        prompt = self.builder.build(messages, enable_thinking=enable_thinking)
        watcher = StopStrings(self.engine.vocab, (*stop_strings, *self.builder.template.stop_strings))
        answer = self.engine.answer(prompt.token_ids, settings, watcher=watcher, cancelled=cancelled, progress=progress)
        return Turn(answer, watcher, starts_in_reasoning=prompt.starts_in_reasoning)

    def memory(self) -> DeviceMemory:
        """Memory in use and free on the device that computes."""
        return device_memory()

    def close(self) -> None:
        """Free the models."""
        self.engine.close()


def open_session(request: ModelRequest, catalogue: Catalogue | None = None) -> Session:
    """Find, cut and load what `request` names.

    Raises CatalogueError, ModelUnavailable, LlamaError and its kinds, and SettingsError.
    """
    catalogue = catalogue or Catalogue()
    entry = catalogue.find(request.model)
    notes: list[str] = []
    target = locate(entry.target)
    draft = _draft(request, entry, catalogue, target, notes)
    settings = EngineSettings(
        target=target,
        draft=draft,
        method=_method(request, draft),
        draft_tokens=DEFAULT_DRAFT_TOKENS if request.draft_tokens is None else request.draft_tokens,
        context=request.context or entry.context,
        threads=request.threads,
        gpu_layers=request.gpu_layers,
        kv_type=request.kv_type,
    )
    return Session(entry, Engine(settings), notes)


def _method(request: ModelRequest, draft: Path | None) -> Method:
    if draft is None or request.draft_tokens == 0:
        return Method.NONE
    return request.method or Method.DRAFT


def _draft(request: ModelRequest, entry: Entry, catalogue: Catalogue, target: Path, notes: list[str]) -> Path | None:
    if request.method is Method.NONE or request.draft == NO_DRAFT or request.draft_tokens == 0:
        return None
    if request.draft is not None:
        return locate(catalogue.find(request.draft).target)
    if isinstance(entry.draft, CutFromTarget):
        return _cut(target, entry.draft, notes)
    if entry.draft is not None:
        return locate(entry.draft)
    if request.method is Method.DRAFT:
        raise ModelUnavailable(f"{entry.name} has no draft model of its own. Name one with --draft.")
    return None


def _cut(target: Path, draft: CutFromTarget, notes: list[str]) -> Path | None:
    try:
        return cut_draft(target, draft.drop_layers)
    except (OSError, LlamaError) as error:
        # The answer is the same without a draft, only slower: worth a word, not a refusal.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        notes.append(f"No draft could be written to {draft_directory()} ({reason}), so the answer is decoded plainly.")
        return None
