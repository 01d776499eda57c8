"""Deleting a conversation, or a message of one, everywhere it left something."""

from __future__ import annotations

from pathlib import Path

from specchat.chat.store import Store
from specchat.chat.store_file import StoreError
from specchat.drafters.past_text import PastText


def forget(store: Store, chat_id: str, past_text: Path) -> None:
    """Delete a conversation and what it contributed to drafting, under every vocabulary.

    `past_text` is `session.past_text_directory()`. Raises StoreError; the conversation then still stands, so that it
    can be deleted again.
    """
    chat = store.chat(chat_id)
    _forget_drafts(chat.id, past_text)
    store.delete(chat.id)


def forget_message(store: Store, node_id: int, past_text: Path) -> None:
    """Delete a message with what follows it, and all that its conversation contributed to drafting.

    The next answer contributes what is left of it. Raises StoreError; the message then still stands.
    """
    _forget_drafts(store.node(node_id).chat_id, past_text)
    store.remove(node_id)


def _forget_drafts(chat_id: str, past_text: Path) -> None:
    if not past_text.is_dir():
        return
    # One file holds the text of all vocabularies, so that which one is named does not matter.
    kept = PastText(past_text, "")
    try:
        forgotten = kept.forget(chat_id)
    finally:
        kept.close()
    if not forgotten:
        why = " ".join(kept.notes)
        raise StoreError(f"What drafts remember of this conversation could not be deleted, so it was kept. {why}")
