"""What goes wrong: what can be expected to is a sentence, and a fault of the program ends it with one."""

from __future__ import annotations

import sys

from rich.text import Text
from textual.app import App

from specchat.chat.store_file import StoreError


def expected() -> tuple[type[Exception], ...]:
    """What the user, the disk or a file of the user's can cause: it is said, and the chat goes on."""
    # Only needed once something went wrong; the first paint needs no catalogue.
    from specchat.catalogue.errors import CatalogueError, ModelUnavailable

    return (StoreError, CatalogueError, ModelUnavailable, OSError, RuntimeError, ValueError, LookupError)


def sentence_of(error: Exception) -> str:
    """What went wrong, for the user."""
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        return f"That could not be done: {error.strerror}{where}."
    return str(error) or type(error).__name__


class TellsFaults(App[int]):
    """Textual's report of an unhandled exception shows the values of variables, and with them the conversation."""

    def _fatal_error(self) -> None:
        from specchat.chat.fault import fault_sentence

        error = sys.exc_info()[1] or self._exception or RuntimeError()
        self.bell()
        self._exit_renderables.append(Text(f"specchat: {fault_sentence(error)} What was said is kept."))
        self._close_messages_no_wait()
