"""What the verbs of `specchat models` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from specchat.catalogue.entries import Entry
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.locate import is_here, locate
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile, Source
from specchat.chat.models import Listed, Models, missing, size_of
from specchat.chat.text import visible
from specchat.cli.consent import agrees, can_ask
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.interrupts import Interrupts
from specchat.cli.obtain import Obtaining, size
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout, as_json
from specchat.fit.verdict import Verdict

_FREE_BY_NATURE: Final = "cut from the model itself"


def _with_models(environment: Environment, command: Callable[[Models], ExitCode]) -> ExitCode:
    def run() -> ExitCode:
        models = Models()
        try:
            return command(models)
        finally:
            models.close()

    return outcome(run, environment)


def list_models(environment: Environment, *, here: bool, fit: bool, json: bool) -> ExitCode:
    """Print one line a model; tabs part the columns where stdout is no terminal."""

    def command(models: Models) -> ExitCode:
        rows = [row for row in models.listed() if row.here or not here]
        verdicts = [models.verdict(row.entry) if fit else None for row in rows]
        stdout = Stdout(environment)
        if json:
            stdout.write(as_json([_data(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)]) + "\n")
            return ExitCode.OK
        lines = [_line(row, verdict) for row, verdict in zip(rows, verdicts, strict=True)]
        _print_columns(lines, stdout, environment)
        if not rows:
            Diagnostics(environment).note("no model is on this machine. Get one: specchat models pull ID")
        return ExitCode.OK

    return _with_models(environment, command)


def _line(row: Listed, verdict: Verdict | None) -> tuple[str, ...]:
    entry = row.entry
    return (entry.id, size(row.size), "here" if row.here else "–", _drafts(entry), fit_words(verdict), entry.name)


def _drafts(entry: Entry) -> str:
    if isinstance(entry.draft, CutFromTarget):
        return "own layers"
    return "draft model" if entry.draft is not None else entry.method or "suffix"


def fit_words(verdict: Verdict | None) -> str:
    """A few words: `fits 40,960`, `does not fit`; nothing where it is not known."""
    if verdict is None:
        return "fit unknown"
    if verdict.fits:
        return f"fits {verdict.largest_context:,}"
    return f"fits with {verdict.largest_context:,}" if verdict.largest_context else "does not fit"


def _data(row: Listed, verdict: Verdict | None) -> dict[str, Any]:
    return {
        "id": row.entry.id,
        "name": row.entry.name,
        "size_bytes": row.size,
        "here": row.here,
        "method": row.entry.method or "auto",
        "fits": None if verdict is None else verdict.fits,
        "largest_context": None if verdict is None else verdict.largest_context,
        "exact": None if verdict is None else verdict.demand.exact,
    }


def _print_columns(lines: Sequence[tuple[str, ...]], stdout: Stdout, environment: Environment) -> None:
    if not environment.stdout_is_terminal:
        stdout.write("".join("\t".join(line) + "\n" for line in lines))
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        stdout.write("  ".join(cells).rstrip() + "\n")


def show_model(environment: Environment, model: str, *, json: bool) -> ExitCode:
    """Print what the catalogue knows of one model, a line a thing."""

    def command(models: Models) -> ExitCode:
        entry = models.catalogue.find(model)
        facts = _facts(entry)
        text = as_json(facts) if json else "\n".join(f"{name:<10} {_words(value)}" for name, value in facts.items())
        Stdout(environment).write(text + "\n")
        return ExitCode.OK

    return _with_models(environment, command)


def _facts(entry: Entry) -> dict[str, Any]:
    facts = {
        "id": entry.id,
        "name": entry.name,
        "size": size_of(entry),
        "target": _source(entry.target),
        "draft": _FREE_BY_NATURE if isinstance(entry.draft, CutFromTarget) else _source(entry.draft),
        "here": not missing(entry) and is_here(entry.target),
        "method": entry.method or "auto",
        "context": entry.context,
        "sampling": dict(entry.sampling),
        "thinking": None if entry.thinking is None else asdict(entry.thinking),
        "license": entry.license,
        "gated": entry.gated,
        "note": " ".join(filter(None, (entry.note, entry.fallback))),
    }
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def _source(source: Source | CutFromTarget | None) -> str | None:
    if isinstance(source, HubFile | HubQuery):
        return source.reference
    if isinstance(source, PackageFile):
        return f"{source.file} in the Python package {source.package}"
    return str(source.path) if isinstance(source, LocalFile) else None


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items() if item is not None)
    if isinstance(value, int) and value > 1_000_000:
        return size(value)
    return visible(str(value))


def pull_model(environment: Environment, model: str, *, yes: bool, force: bool, offline: bool, quiet: bool) -> ExitCode:
    """Fetch what is missing of a model and its draft; the target's path goes to stdout."""
    diagnostics, interrupts = Diagnostics(environment, quiet=quiet), Interrupts()

    def command(models: Models) -> ExitCode:
        entry = models.catalogue.find(model)
        if not missing(entry):
            path = locate(entry.target, entry.id)
            diagnostics.note(f"{entry.name} is here already.")
        else:
            with interrupts.installed():
                obtaining = Obtaining(environment, diagnostics, interrupts, yes=yes, force=force, offline=offline)
                entry = obtaining.obtain(entry, models, draft_too=True)
            path = locate(entry.target, entry.id)
        Stdout(environment).write(f"{path}\n")
        return interrupts.exit_code or ExitCode.OK

    code = _with_models(environment, command)
    return interrupts.exit_code or code


def remove_model(environment: Environment, model: str, *, yes: bool) -> ExitCode:
    """Delete a model's files, and those of its draft that no other model here uses."""
    diagnostics = Diagnostics(environment)

    def command(models: Models) -> ExitCode:
        from specchat.catalogue.inventory import remove

        entry = models.catalogue.find(model)
        if not entry.hub_sources:
            raise ModelUnavailable(f"{entry.name} did not come from a hub, so it is not specchat's to delete.")
        question = f"Delete {entry.name} ({size(size_of(entry))})?"
        if not yes and not can_ask(environment):
            raise UsageError(f"{question} To do it without being asked: specchat models rm {model} -y")
        if not yes and not agrees(environment, diagnostics, question):
            return ExitCode.OK
        freed = sum(remove(source) for source in _no_one_elses(entry, models) if isinstance(source, HubFile))
        diagnostics.note(f"{size(freed)} freed.")
        return ExitCode.OK

    return _with_models(environment, command)


def _no_one_elses(entry: Entry, models: Models) -> list[HubFile | HubQuery]:
    """The files of `entry` that are here and that no other model that is here needs."""
    others = [row.entry for row in models.listed() if row.here and row.entry.id != entry.id]
    used = {source for other in others for source in other.hub_sources}
    return [
        source for source in entry.hub_sources if source not in used and (is_here(source) or source is entry.target)
    ]


def print_path(environment: Environment, model: str) -> ExitCode:
    """Print where the target's file lies."""

    def command(models: Models) -> ExitCode:
        entry = models.catalogue.find(model)
        Stdout(environment).write(f"{locate(entry.target, entry.id)}\n")
        return ExitCode.OK

    return _with_models(environment, command)
