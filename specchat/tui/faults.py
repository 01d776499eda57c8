"""An app that ends over a fault of its own with a sentence."""

from __future__ import annotations

import sys

from rich.text import Text
from textual.app import App


class TellsFaults(App[int]):
    """Textual's report of an unhandled exception shows the values of variables, and with them the conversation."""

    def _fatal_error(self) -> None:
        from specchat.chat.fault import fault_sentence

        error = sys.exc_info()[1] or self._exception or RuntimeError()
        self.bell()
        self._exit_renderables.append(Text(f"specchat: {fault_sentence(error)} What was said is kept."))
        self._close_messages_no_wait()
