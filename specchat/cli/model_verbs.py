"""What the verbs of `specchat models` do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.cells import cell_len, set_cell_size

from specchat.catalogue.entries import Entry
from specchat.catalogue.locate import is_here, locate
from specchat.catalogue.sources import CutFromTarget, HubFile, HubQuery, LocalFile, PackageFile, Source
from specchat.chat.amounts import size
from specchat.chat.models import Listed, Models, is_complete, missing, size_of
from specchat.chat.text import visible
from specchat.cli.consent import agrees, can_ask
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.interrupts import Interrupts
from specchat.cli.obtain import Obtaining
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout, as_json
from specchat.cli.terminal import columns, cut
from specchat.fit.verdict import Verdict

_FREE_BY_NATURE: Final = "cut from the model itself"
_GAP: Final = 2
_DISPENSABLE: Final = (5, 3, 4, 2)
"""Columns of the list by how little they matter: name, what drafts, fit, whether it is here."""


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
        words = [fit_words(verdict) if fit else "–" for verdict in verdicts]
        lines = [_line(row, word) for row, word in zip(rows, words, strict=True)]
        _print_columns(lines, stdout, environment)
        if not rows:
            Diagnostics(environment).note("no model is on this machine. Get one: specchat models pull ID")
        return ExitCode.OK

    return _with_models(environment, command)


def _line(row: Listed, fit: str) -> tuple[str, ...]:
    entry = row.entry
    cells = (entry.id, size(row.size), "here" if row.here else "–", entry.drafted_by, fit, entry.name)
    return tuple(" ".join(visible(cell).split()) for cell in cells)


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
        "drafted_by": row.entry.drafted_by,
        "method": row.entry.method or "auto",
        "fits": None if verdict is None else verdict.fits,
        "largest_context": None if verdict is None else verdict.largest_context,
        "exact": None if verdict is None else verdict.demand.exact,
    }


def _print_columns(lines: Sequence[tuple[str, ...]], stdout: Stdout, environment: Environment) -> None:
    if not environment.stdout_is_terminal:
        stdout.write("".join("\t".join(line) + "\n" for line in lines))
        return
    total = columns(environment, environment.stdout)
    if not lines:
        return
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    shown = list(range(len(widths)))
    # On a narrow terminal the columns that matter least go, one by one.
    for column in _DISPENSABLE:
        if sum(widths[n] + _GAP for n in shown) - _GAP > total:
            shown.remove(column)
    for line in lines:
        row = (" " * _GAP).join(set_cell_size(line[n], widths[n]) for n in shown).rstrip()
        stdout.write(cut(row, total) + "\n")


def show_model(environment: Environment, model: str, *, json: bool) -> ExitCode:
    """Print what the catalogue knows of one model, a line a thing."""

    def command(models: Models) -> ExitCode:
        entry = models.catalogue.find(model)
        facts = _facts(entry)
        lines = (f"{_label(name):<10} {_words(value, name)}" for name, value in facts.items())
        text = as_json(facts) if json else "\n".join(lines)
        Stdout(environment).write(text + "\n")
        return ExitCode.OK

    return _with_models(environment, command)


def _facts(entry: Entry) -> dict[str, Any]:
    facts = {
        "id": entry.id,
        "name": entry.name,
        "size_bytes": size_of(entry),
        "path": str(locate(entry.target, entry.id)) if is_here(entry.target) else None,
        "target": _source(entry.target),
        "draft": _FREE_BY_NATURE if isinstance(entry.draft, CutFromTarget) else _source(entry.draft),
        "here": is_complete(entry),
        "drafted_by": entry.drafted_by,
        "method": entry.method or "auto",
        "context": entry.context,
        "sampling": dict(entry.sampling),
        "thinking": None if entry.thinking is None else asdict(entry.thinking),
        "license": entry.license,
        "gated": entry.gated or None,
        "note": entry.note,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def _source(source: Source | CutFromTarget | None) -> str | None:
    if isinstance(source, HubFile | HubQuery):
        return source.reference
    if isinstance(source, PackageFile):
        return f"{source.file} in the Python package {source.package}"
    return str(source.path) if isinstance(source, LocalFile) else None


def _label(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _words(value: object, name: str = "") -> str:
    if isinstance(value, int) and name.endswith("_bytes"):
        return size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items() if item is not None)
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
    diagnostics, interrupts = Diagnostics(environment), Interrupts()

    def command(models: Models) -> ExitCode:
        from specchat.chat.removal import removal_of

        removal = removal_of(models.catalogue.find(model), models)
        question = f"Delete {visible(', '.join(removal.names))} ({size(removal.size)})"
        for file, users in removal.kept.items():
            diagnostics.note(f"{file} stays: {' and '.join(users)} {'uses' if len(users) == 1 else 'use'} it.")
        if not yes and not can_ask(environment):
            raise UsageError(f"{question}? To do it without being asked: specchat models rm {model} -y")
        with interrupts.installed():
            if not yes and not agrees(environment, diagnostics, f"{question}?", interrupts.arrived):
                diagnostics.note("Nothing was deleted.")
                return interrupts.exit_code or ExitCode.OK
        diagnostics.note(f"{size(removal.carry_out())} freed.")
        return ExitCode.OK

    return _with_models(environment, command)


def print_path(environment: Environment, model: str) -> ExitCode:
    """Print where the target's file lies."""

    def command(models: Models) -> ExitCode:
        entry = models.catalogue.find(model)
        Stdout(environment).write(f"{locate(entry.target, entry.id)}\n")
        return ExitCode.OK

    return _with_models(environment, command)
