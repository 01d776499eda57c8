"""What a request wants on this machine: which files, how they will be loaded, and the options that say so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from specchat.catalogue.entries import Catalogue, Entry
from specchat.chat.session import NO_DRAFT, ModelRequest
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.engine.settings import EngineSettings


@dataclass(frozen=True, slots=True)
class Wanted:
    """The models to have, and the pair that is to fit."""

    target: Entry
    """With its own draft, unless another one or none is wanted."""
    named_draft: Entry | None
    """What is wanted instead, alone."""

    @property
    def pair(self) -> Entry:
        """The target with the draft that will be loaded beside it."""
        return self.target if self.named_draft is None else replace(self.target, draft=self.named_draft.target)


def wanted(entry: Entry, request: ModelRequest, catalogue: Catalogue) -> Wanted:
    """What `request` wants of `entry`; raises ModelUnavailable for a draft that nothing is known of."""
    if not _by_model(request):
        return Wanted(replace(entry, draft=None), None)
    if request.draft is None:
        return Wanted(entry, None)
    return Wanted(replace(entry, draft=None), replace(catalogue.find(request.draft), draft=None))


def _by_model(request: ModelRequest) -> bool:
    """Whether a draft model from a file of its own may draft."""
    by_method = request.method in (None, Method.AUTO, Method.DRAFT, *HEAD_METHODS)
    return by_method and request.draft_tokens != 0 and request.draft != NO_DRAFT


def settings_of(request: ModelRequest) -> EngineSettings:
    """How it will be loaded, but for the files; raises SettingsError."""
    return EngineSettings(
        Path(),
        method=Method.NONE if request.draft_tokens == 0 else request.method or Method.AUTO,
        draft_tokens=request.draft_tokens,
        context=request.context,
        threads=request.threads,
        gpu_layers=request.gpu_layers,
        kv_type=request.kv_type,
        draft_kv_type=request.draft_kv_type,
    )


def options_of(request: ModelRequest) -> dict[str, str]:
    """The options that say which draft is loaded, by name, for a command that is proposed."""
    options = {} if request.draft is None else {"--draft": request.draft}
    if request.draft_tokens == 0:
        options["--draft-tokens"] = "0"
    if request.method not in (None, Method.AUTO, Method.DRAFT):
        options["--method"] = str(request.method)
    return options
