"""What can go wrong in a conversion, as sentences for the user."""

from __future__ import annotations

from specchat.llama.errors import LlamaError, ModelUnusable


class CheckpointUnusable(ModelUnusable):
    """A checkpoint that can't be read, or does not belong to its target; the message says what is wrong with it."""


class ConversionStopped(LlamaError):
    """The user stopped a conversion; nothing of it is left."""
