"""Composes the chat: the real worker, the user's conversations, a shelf of models."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TextIO

from specchat.chat.store import Store, store_path
from specchat.chat.store_file import StoreError
from specchat.tui.app import ChatApp
from specchat.tui.keymap import KeymapError
from specchat.tui.options import ChatOptions
from specchat.tui.prompt_file import PromptFile, prompts_path
from specchat.tui.shelf import EmptyShelf, Shelf
from specchat.worker.client import Worker

_FAILED, _USAGE = 1, 2


def run_chat(options: ChatOptions, shelf: Shelf | None = None, *, complaints: TextIO | None = None) -> int:
    """Open the chat on this terminal until the user leaves; the exit code, after a sentence where it could not open."""
    complaints = complaints or sys.stderr
    try:
        store = Store(store_path())
    except StoreError as error:
        complaints.write(f"{error}\n")
        return _FAILED
    with store:
        try:
            app = ChatApp(Worker(), store, shelf or EmptyShelf(), _completed(options, store))
        except KeymapError as error:
            complaints.write(f"{error}\n")
            return _USAGE
        code = app.run()
    return _FAILED if code is None else code


def _completed(options: ChatOptions, store: Store) -> ChatOptions:
    """The options with what this program keeps between starts."""

    def forget(chat_id: str) -> None:
        # They import the engine, which no start should wait for.
        from specchat.chat.forgetting import forget as forget_everywhere
        from specchat.chat.session import past_text_directory

        forget_everywhere(store, chat_id, past_text_directory())

    def forget_message(node_id: int) -> None:
        from specchat.chat.forgetting import forget_message as forget_everywhere
        from specchat.chat.session import past_text_directory

        forget_everywhere(store, node_id, past_text_directory())

    return replace(
        options,
        history=options.history or PromptFile(prompts_path()),
        forget=options.forget or forget,
        forget_message=options.forget_message or forget_message,
    )
