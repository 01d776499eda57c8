"""Whether a draft speaks the target's language."""

from __future__ import annotations

from typing import Protocol

MAX_PADDING = 128
"""Vocabularies of one family differ by a few padding tokens at their end, at most so many."""


class TokenTexts(Protocol):
    """The part of a vocabulary that is compared."""

    size: int
    type: int
    digest: str

    def text(self, token: int) -> str:
        """The token as the file spells it."""


def difference(target: TokenTexts, draft: TokenTexts) -> str | None:
    """A sentence that names the first difference that makes `draft` unusable for `target`, or None.

    Ids must mean the same text in both: a draft is a sequence of ids.
    """
    if target.type != draft.type:
        return f"their tokenizers are of different kinds (types {target.type} and {draft.type})"
    if target.digest == draft.digest:
        return None
    if abs(target.size - draft.size) > MAX_PADDING:
        return f"they have {target.size:,} and {draft.size:,} tokens"
    for token in range(min(target.size, draft.size)):
        ours, theirs = target.text(token), draft.text(token)
        if ours != theirs:
            return f"token {token} is {ours!r} in the target and {theirs!r} in the draft"
    return None
