"""What `specchat models fit` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from specchat.catalogue.entries import Catalogue, Entry
from specchat.catalogue.reference import resolve
from specchat.catalogue.sources import HubFile, HubQuery
from specchat.chat.text import visible
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout
from specchat.cli.output import as_json as json_text
from specchat.cli.page import Page
from specchat.drafters.layer_skip import draft_directory
from specchat.drafters.method import Method
from specchat.engine.settings import EngineSettings
from specchat.fit.check import Check
from specchat.fit.exact import FitUnavailable
from specchat.fit.memory import SizeError, parse_size
from specchat.fit.pairs import NO_DRAFT, Elsewhere, Pair, others_than, pair_of
from specchat.fit.report import as_data, renderable
from specchat.fit.verdict import Verdict
from specchat.llama.context_params import KVType
from specchat.llama.errors import LlamaError

_TRIES: Final = 2
_DEFAULTS: Final = {"--kv": "f16", "--draft-kv": "f16", "--gpu-layers": "-1"}
_IDLE_CARD: Final = (
    "There is a graphics card ({card}), but the installed llama.cpp computes on the CPU only. For one that uses it: "
    'CMAKE_ARGS=-DGGML_CUDA=on pip install --force-reinstall --no-cache-dir --no-deps "llama-cpp-python==0.3.36"'
)


def fit_model(
    environment: Environment,
    model: str,
    *,
    ctx: int | None = None,
    vram: str | None = None,
    kv: str = "f16",
    draft_kv: str = "f16",
    draft: str | None = None,
    gpu_layers: int = -1,
    draft_tokens: int | None = None,
    as_json: bool = False,
    offline: bool = False,
    quiet: bool = False,
) -> ExitCode:
    """Print whether `model` with its draft fits; exit code OK if so, DOES_NOT_FIT if not."""

    def command() -> ExitCode:
        try:
            size = None if vram is None else parse_size(vram)
        except SizeError as error:
            raise UsageError(f"--vram: {error}") from None
        settings = EngineSettings(
            target=Path(model),
            method=Method.AUTO,
            context=ctx,
            kv_type=_kv_type(kv),
            draft_kv_type=_kv_type(draft_kv),
            gpu_layers=gpu_layers,
            draft_tokens=draft_tokens,
        )
        diagnostics = Diagnostics(environment, quiet=quiet)
        elsewhere = Elsewhere(_headers(offline, diagnostics), exactly=size is None, say=diagnostics.note)
        verdict = _verdict(model, draft, settings, size, elsewhere, diagnostics)
        chosen = {"-m": model, "--draft": draft, "--kv": kv, "--draft-kv": draft_kv, "--gpu-layers": str(gpu_layers)}
        asked = {name: value for name, value in chosen.items() if value is not None and value != _DEFAULTS.get(name)}
        _print(verdict, asked, environment, as_json=as_json)
        return ExitCode.OK if verdict.fits else ExitCode.DOES_NOT_FIT

    return outcome(command, environment)


def _kv_type(name: str) -> KVType:
    try:
        return KVType[name.upper()]
    except KeyError:
        names = ", ".join(kind.name.lower() for kind in KVType)
        raise UsageError(f"There is no cache type {name!r}; there are: {names}.") from None


def _verdict(
    model: str,
    draft: str | None,
    settings: EngineSettings,
    vram: int | None,
    elsewhere: Elsewhere,
    diagnostics: Diagnostics,
) -> Verdict:
    catalogue = Catalogue()
    entry = catalogue.find(model)
    pair = _pair(entry, catalogue, draft, elsewhere, diagnostics)
    context = settings.context if settings.context is not None else entry.context
    with Check(vram) as check:
        if check.idle_card and vram is None:
            diagnostics.note(_IDLE_CARD.format(card=check.idle_card))
        try:
            return check.judge(
                pair,
                replace(settings, context=context),
                others=others_than(entry, catalogue, heads=check.heads),
            )
        except FitUnavailable as error:
            raise LlamaError(str(error)) from None


def _headers(offline: bool, diagnostics: Diagnostics) -> Callable[[HubFile | HubQuery], Path]:
    """What fetches the header of a file that is not here."""

    def fetch(file: HubFile | HubQuery) -> Path:
        from specchat.catalogue.hub import Hub, Patience
        from specchat.fit.remote import header_file

        # A hub that doesn't answer costs an exact figure, not the answer.
        hub = Hub(offline=offline, patience=Patience(tries=_TRIES), say=diagnostics.progress)
        if isinstance(file, HubQuery):
            listing = hub.listing(file.repo, file.revision)
            file = resolve(file, listing.files, listing.commit)
        try:
            return header_file(file, hub)
        finally:
            diagnostics.end_progress()

    return fetch


def _pair(
    entry: Entry, catalogue: Catalogue, draft: str | None, elsewhere: Elsewhere, diagnostics: Diagnostics
) -> Pair:
    try:
        pair = pair_of(entry, catalogue, draft, elsewhere=elsewhere)
    except OSError as error:
        diagnostics.note(f"No draft could be written to {draft_directory()} ({error.strerror}): planned without one.")
        pair = pair_of(entry, catalogue, NO_DRAFT, elsewhere=elsewhere)
    # A file's name may hold anything.
    return replace(pair, id=visible(pair.id))


def _print(verdict: Verdict, asked: Mapping[str, str], environment: Environment, *, as_json: bool) -> None:
    stdout = Stdout(environment)
    if as_json:
        stdout.write(json_text(as_data(verdict, asked)) + "\n")
        return
    page = Page(environment)
    page.print(renderable(verdict, page.width, asked))
    stdout.write(page.text)
