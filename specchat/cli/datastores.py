"""What the verbs of `specchat rest` do."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from specchat.catalogue.entries import Catalogue
from specchat.catalogue.locate import locate
from specchat.chat.amounts import size
from specchat.chat.text import visible
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.outcome import outcome
from specchat.cli.output import Stdout
from specchat.llama.errors import DoesNotFit, LlamaError
from specchat.llama.vocab import Vocab
from specchat.llama.vocab_only import vocabulary_of
from specchat.retrieval import shelf
from specchat.retrieval.build import Progress, build, open_stores
from specchat.retrieval.datastore import Datastore, read_description
from specchat.retrieval.errors import DatastoreError
from specchat.retrieval.lookup import continuation

_BAR: Final = 24
_REDRAW_S: Final = 0.1


def _told(command: Callable[[], None], environment: Environment) -> ExitCode:
    """Run a verb; errors of datastores and of the disk become sentences with their exit codes."""

    def run() -> ExitCode:
        try:
            command()
        except DatastoreError as error:
            raise UsageError(str(error)) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            kind = DoesNotFit if error.errno in (errno.ENOSPC, errno.EDQUOT) else LlamaError
            raise kind(f"The datastore can't be written to {shelf.directory()}: {error.strerror}.") from None
        return ExitCode.OK

    return outcome(run, environment)


def build_store(
    environment: Environment,
    name: str,
    paths: Sequence[Path],
    *,
    model: str,
    replace: bool = False,
    quiet: bool = False,
) -> ExitCode:
    """Build the datastore `name`; progress and a summary go to stderr, its path to stdout."""
    diagnostics = Diagnostics(environment, quiet=quiet)

    def command() -> None:
        with vocabulary_of(locate(Catalogue().find(model).target)) as (vocab, model_name):
            bar = _Bar(diagnostics)
            try:
                built = build(
                    name,
                    paths,
                    vocab,
                    vocabulary_digest=vocab.digest,
                    model=model_name,
                    replace=replace,
                    progress=bar.show,
                )
            finally:
                diagnostics.end_progress()
        diagnostics.note(f"{name}: {built.summary}")
        Stdout(environment).write(f"{built.path}\n")

    return _told(command, environment)


class _Bar:
    """The progress of a build, drawn ten times a second."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._next = 0.0

    def show(self, progress: Progress) -> None:
        """Draw, unless that was just done."""
        now = time.monotonic()
        if now < self._next and not progress.sorting:
            return
        self._next = now + _REDRAW_S
        share = min(progress.bytes_read / max(progress.bytes_all, 1), 1.0)
        bar = ("█" * round(share * _BAR)).ljust(_BAR, "░")
        doing = "sorting " if progress.sorting else ""
        self._diagnostics.progress(f"{bar} {share:4.0%}  {doing}{progress.tokens:,} tokens of {progress.files:,} files")


def list_stores(environment: Environment) -> ExitCode:
    """Print one line a datastore: name, tokens, bytes, vocabulary, path, parted by tabs; notes for damaged ones."""

    def command() -> None:
        lines, notes = [], []
        for name in shelf.names():
            path = shelf.path_of(name)
            try:
                about = read_description(path)
            except DatastoreError as error:
                notes.append(str(error))
                continue
            vocabulary = f"{visible(about.model)} ({about.vocabulary_size:,})"
            lines.append((name, f"{about.tokens:,} tokens", size(path.stat().st_size), vocabulary, str(path)))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)] if lines else []
        for line in lines:
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            Stdout(environment).write(("  ".join(cells) if environment.stdout_is_terminal else "\t".join(line)) + "\n")
        for note in notes:
            Diagnostics(environment).note(note)
        if not lines and not notes:
            Diagnostics(environment).note("there are no datastores. Make one: specchat rest build NAME PATH...")

    return _told(command, environment)


def remove_store(environment: Environment, name: str) -> ExitCode:
    """Delete the datastore `name`."""
    return _told(lambda: shelf.remove(name), environment)


def query_stores(environment: Environment, words: Sequence[str], *, model: str, limit: int) -> ExitCode:
    """Print what would be drafted after a text: matched length, occurrences, the continuation as a JSON string."""

    def command() -> None:
        if len(words) > 2:
            raise UsageError("rest query takes a name and a text, or a text alone. Put quotes around the text.")
        text = words[-1]
        with ExitStack() as stack:
            vocab, model_name = stack.enter_context(vocabulary_of(locate(Catalogue().find(model).target)))
            named = words[0] if len(words) == 2 else None
            stores = [stack.enter_context(store) for store in _stores(named, vocab, model_name)]
            ids = vocab.tokenize(text, add_special=False, parse_special=False)
            found = continuation(stores, ids, limit)
            following = b"".join(map(vocab.piece, found.ids)).decode("utf-8", errors="replace")
        # A JSON string keeps line breaks on the line and lets no control character through.
        shown = json.dumps(visible(following), ensure_ascii=False)
        Stdout(environment).write(
            f"datastores\t{', '.join(store.name for store in stores)}\n"
            f"matched\t{found.matched} of {len(ids)} tokens\n"
            f"occurrences\t{found.occurrences:,}\n"
            f"continuation\t{shown}\n"
        )

    return _told(command, environment)


def _stores(name: str | None, vocab: Vocab, model_name: str) -> list[Datastore]:
    if name is not None:
        return [Datastore(shelf.existing(name), vocab.digest, model_name)]
    return open_stores(vocab, vocab.digest, model_name)
