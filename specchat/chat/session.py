"""From what a user asked for to an open model: the composition both front ends share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import platformdirs

from specchat.catalogue.entries import Catalogue, CutFromTarget, Entry
from specchat.catalogue.errors import CatalogueError, ModelUnavailable
from specchat.catalogue.locate import is_here, locate
from specchat.chat.message import Message
from specchat.chat.models import Models
from specchat.chat.preferences import read_preferences
from specchat.chat.prompt import PromptBuilder
from specchat.chat.template import ChatTemplate
from specchat.chat.turn import StopStrings, Turn
from specchat.drafters.heads.pairing import has_own_head, method_of, whole_header
from specchat.drafters.layer_skip import cut_draft, default_layer_set, draft_directory, stored_layer_set
from specchat.drafters.method import HEAD_METHODS, HEAD_OF, Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings, SettingsError
from specchat.engine.speed import speed_of
from specchat.fit.gate import require_fit
from specchat.fit.pairs import Pair
from specchat.llama.context_params import KVType
from specchat.llama.devices import DeviceMemory, device_memory
from specchat.llama.errors import LlamaError
from specchat.speculation.params import SamplingParams

_A_LOSS, _LONG_ENOUGH = 0.97, 32
"""A fixed choice is called a loss below this speed-up, over at least so many tokens."""
NO_DRAFT = "none"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What to open; None stands for the catalogue's or the program's default.

    Raises SettingsError for choices that contradict each other.
    """

    model: str | None = None
    """A catalogue id, a repository or a path; None: the best that is here and fits."""
    draft: str | None = None
    """A model's name or path, or `none`."""
    method: Method | None = None
    draft_tokens: int | None = None
    tree: bool = False
    """Whether a trained head drafts trees where it can."""
    context: int | None = None
    threads: int | None = None
    gpu_layers: int = -1
    kv_type: KVType = KVType.F16
    draft_kv_type: KVType = KVType.F16
    force: bool = False
    """Load also what does not fit by the count of `fit`."""
    past_text: bool = True
    """Whether text of past conversations may be drafted from, where the user's settings keep it."""
    costs: Path | None = None
    """Where measured costs are kept; None: among the user's."""

    def __post_init__(self) -> None:
        with_model = self.method in (Method.DRAFT, Method.EAGLE, Method.P_EAGLE, Method.DFLASH, Method.MEDUSA)
        if self.method is Method.NONE and self.draft not in (None, NO_DRAFT):
            raise SettingsError("--method none decodes plainly, but --draft names a draft model: use one of the two.")
        if self.method is Method.NONE and self.draft_tokens:
            raise SettingsError(
                "--method none decodes plainly, but --draft-tokens asks for drafts: use one of the two."
            )
        if self.method not in (None, Method.NONE, Method.AUTO, *_WITH_A_FILE) and self.draft not in (None, NO_DRAFT):
            raise SettingsError(f"--method {self.method} drafts without a second model, but --draft names one.")
        if with_model and self.draft == NO_DRAFT:
            raise SettingsError(f"--method {self.method} drafts with a model, but --draft none forbids one.")


_WITH_A_FILE: Final = (Method.DRAFT, *HEAD_METHODS)
"""Methods that draft with a file named for them, if one is."""


@dataclass(slots=True)
class Session:
    """An open model and how to talk to it. Raises TemplateError for a model whose template can't be used."""

    entry: Entry
    engine: Engine
    notes: list[str]
    """Sentences for the user about what could not be done as asked."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Names the conversation where its text is kept."""
    builder: PromptBuilder = field(init=False)
    _loss_said: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        template = ChatTemplate(self.engine.model.chat_template, self.engine.vocab)
        self.builder = PromptBuilder(template, self.engine.vocab)
        if template.note:
            self.notes.append(template.note)

    def take_notes(self) -> list[str]:
        """What there is to say that was not said before."""
        notes, self.notes = self.notes, []
        return notes + self.engine.take_notes()

    def finish(self, turn: Turn) -> None:
        """Take leave of an answer: let later ones draft from it, and say so if a fixed choice made it slower."""
        self.engine.remember(self.id, turn.answer.transcript)
        settings, figures = self.engine.settings, speed_of(self.engine, turn.answer)
        slower = figures.speedup is not None and figures.speedup < _A_LOSS
        if slower and len(turn.answer.token_ids) >= _LONG_ENOUGH and settings.draft_tokens and not self._loss_said:
            self._loss_said = True
            self.notes.append(
                f"--method {self.engine.method} -k {settings.draft_tokens} was slower here than plain decoding "
                f"({figures.tok_s:.1f} against {figures.plain_tok_s:.1f} tok/s). Without -k, specchat decides."
            )

    def sampling(self, chosen: Mapping[str, object], *, thinking: bool | None = None) -> SamplingParams:
        """The sampler chain: what the user chose, over the entry's defaults, over the program's.

        Raises CatalogueError where the entry's are wrong, ValueError where the user's are.
        """
        try:
            defaults = SamplingParams(**self.entry.sampling_when(thinking))  # type: ignore[arg-type]
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


def open_session(
    request: ModelRequest, catalogue: Catalogue | None = None, told: Callable[[str], None] = lambda _: None
) -> Session:
    """Find, cut, weigh and load what `request` names; `told` hears what happens now.

    Raises CatalogueError, ModelUnavailable, LlamaError and its kinds (DoesNotFit before anything is allocated), and
    SettingsError.
    """
    catalogue = catalogue or Catalogue()
    entry = _chosen(request, catalogue)
    notes: list[str] = []
    target = locate(entry.target, entry.id)
    draft = _draft(request, entry, catalogue, target, notes)
    settings = EngineSettings(
        target=target,
        draft=draft,
        method=_method(request, entry, target, draft),
        draft_tokens=request.draft_tokens,
        tree=request.tree,
        context=request.context or entry.context,
        threads=request.threads,
        gpu_layers=request.gpu_layers,
        kv_type=request.kv_type,
        draft_kv_type=request.draft_kv_type,
        costs=request.costs,
        past_text=past_text_directory() if request.past_text and read_preferences().remember else None,
    )
    if not request.force:
        told("checking that it fits …")
        named = {} if request.draft is None else {"--draft": request.draft}
        require_fit(Pair(request.model or entry.id, target, draft), settings, named)
    told("loading the model …")
    return _session(entry, Engine(settings), notes)


def _session(entry: Entry, engine: Engine, notes: list[str]) -> Session:
    try:
        return Session(entry, engine, notes)
    except BaseException:
        # A template that can't be used must not leave gigabytes behind.
        engine.close()
        raise


def _chosen(request: ModelRequest, catalogue: Catalogue) -> Entry:
    models = Models(catalogue)
    try:
        return models.chosen(request.model)
    finally:
        models.close()


def past_text_directory() -> Path:
    """Where the suffix method keeps the token ids of past conversations."""
    return Path(platformdirs.user_data_path("specchat", appauthor=False)) / "suffix"


def _method(request: ModelRequest, entry: Entry, target: Path, draft: Path | None) -> Method:
    if request.draft_tokens == 0:
        return Method.NONE
    if request.method in (Method.DRAFT, Method.LAYER_SKIP) and draft is None:
        # It could not be written, which a note says.
        return Method.NONE
    if request.method is None and request.draft_tokens:
        # A fixed depth is one drafter's: the draft model's or the head's, else that of text already seen.
        if draft is not None:
            return method_of(draft) or Method.DRAFT
        return Method.MTP if has_own_head(whole_header(target)) else Method.SUFFIX
    if request.method is None and request.draft not in (None, NO_DRAFT):
        # A draft that was named is to be used, also where the entry prefers another method.
        return Method.AUTO
    return request.method or _preferred(entry)


def _preferred(entry: Entry) -> Method:
    try:
        return Method(entry.method or Method.AUTO)
    except ValueError:
        known = ", ".join(method.value for method in Method)
        raise CatalogueError(f"The catalogue's [{entry.id}] has method {entry.method!r}; there are: {known}.") from None


def _draft(request: ModelRequest, entry: Entry, catalogue: Catalogue, target: Path, notes: list[str]) -> Path | None:
    if request.draft_tokens == 0 or request.method not in (None, Method.AUTO, Method.LAYER_SKIP, *_WITH_A_FILE):
        return None
    if request.method is Method.LAYER_SKIP:
        return _cut(target, _layer_set(target, entry), notes)
    if request.draft == NO_DRAFT:
        return None
    if request.draft is not None:
        return locate(catalogue.find(request.draft).target, request.draft)
    if request.method in HEAD_METHODS and not _drafts_by(entry, request.method):
        # The engine says what it needs.
        return None
    if isinstance(entry.draft, CutFromTarget):
        # It is a model, no head: the engine says that none was named.
        return None if request.method in HEAD_METHODS else _cut(target, entry.draft.drop_layers, notes)
    if entry.draft is not None and (is_here(entry.draft) or request.method in _WITH_A_FILE):
        return locate(entry.draft, entry.id)
    if entry.draft is not None:
        what = "draft model" if entry.drafter is None else "head"
        notes.append(
            f"The {what} of {entry.name} is not on this machine, so drafts come from text already seen. "
            f"Get it with: specchat models pull {entry.id}"
        )
        return None
    if request.method is Method.DRAFT:
        raise ModelUnavailable(f"{entry.name} has no draft model of its own. Name one with --draft.")
    return None


def _drafts_by(entry: Entry, method: Method) -> bool:
    """Whether the entry's own head is one for `method`; whether an EAGLE-3 head drafts in parallel, its file says."""
    return entry.drafter is HEAD_OF[method]


def _layer_set(target: Path, entry: Entry) -> Sequence[int]:
    """The layers to skip: what a calibration found, else what the catalogue says, else a guess by position."""
    found = stored_layer_set(target)
    if found is None and isinstance(entry.draft, CutFromTarget):
        return entry.draft.drop_layers
    return default_layer_set(target) if found is None else found


def _cut(target: Path, layers: Sequence[int], notes: list[str]) -> Path | None:
    try:
        return cut_draft(target, layers)
    except (OSError, LlamaError) as error:
        # The answer is the same without a draft, only slower: worth a word, not a refusal.
        reason = error.strerror if isinstance(error, OSError) else str(error)
        notes.append(f"No draft could be written to {draft_directory()} ({reason}), so the answer is decoded plainly.")
        return None
