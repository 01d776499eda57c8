"""Exit codes, and which error ends with which."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the shell sees."""

    OK = 0
    ENGINE = 1
    USAGE = 2
    MODEL_UNAVAILABLE = 3
    DOES_NOT_FIT = 4
    PROMPT_TOO_LONG = 5
    INTERRUPTED = 130
    READER_CLOSED = 141
    TERMINATED = 143


class UsageError(Exception):
    """A command line or input that can't be meant; the message says what is wrong and what to write instead."""


def exit_code_of(error: Exception) -> ExitCode | None:
    """The exit code for an error whose message is a sentence for the user; None for a fault of the program."""
    from specchat.catalogue.cache import DiskFull
    from specchat.catalogue.errors import CatalogueError, ModelUnavailable
    from specchat.catalogue.hub_errors import Cancelled
    from specchat.chat.errors import TemplateError
    from specchat.chat.preferences import PreferencesError
    from specchat.chat.store_file import NotStored, StoreError, StoreFull
    from specchat.engine.engine import PromptTooLong, VocabularyMismatch
    from specchat.engine.settings import SettingsError
    from specchat.llama.errors import DoesNotFit, LlamaError, ModelUnusable
    from specchat.retrieval.errors import DatastoreError

    # The first match counts: special kinds stand before the general ones.
    codes: tuple[tuple[type[Exception], ExitCode], ...] = (
        (UsageError, ExitCode.USAGE),
        (SettingsError, ExitCode.USAGE),
        (CatalogueError, ExitCode.USAGE),
        (PreferencesError, ExitCode.USAGE),
        (DatastoreError, ExitCode.USAGE),
        (VocabularyMismatch, ExitCode.USAGE),
        (DiskFull, ExitCode.DOES_NOT_FIT),
        (Cancelled, ExitCode.INTERRUPTED),
        (NotStored, ExitCode.USAGE),
        (StoreFull, ExitCode.DOES_NOT_FIT),
        (StoreError, ExitCode.ENGINE),
        (ModelUnavailable, ExitCode.MODEL_UNAVAILABLE),
        (ModelUnusable, ExitCode.MODEL_UNAVAILABLE),
        (TemplateError, ExitCode.MODEL_UNAVAILABLE),
        (DoesNotFit, ExitCode.DOES_NOT_FIT),
        (PromptTooLong, ExitCode.PROMPT_TOO_LONG),
        (LlamaError, ExitCode.ENGINE),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), None)
