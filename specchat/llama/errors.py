"""What can go wrong below the loop, as sentences for the user."""

from __future__ import annotations


class LlamaError(Exception):
    """Something llama.cpp would not do, or would have aborted on; the message is a sentence for the user."""


class ModelUnusable(LlamaError):
    """A file that is no model, a damaged one, or one this program can't chat with."""


class DoesNotFit(LlamaError):
    """Weights, KV cache or buffers could not be allocated."""


class ContextFull(LlamaError):
    """More tokens than the context has cells."""


class DecodeFailed(LlamaError):
    """A forward pass was refused or failed; the context was rolled back to its last good length."""


class PrefillCancelled(LlamaError):
    """The user stopped a prefill; the context keeps the tokens that were read completely."""
