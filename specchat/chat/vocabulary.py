"""What this package needs to know of a model's vocabulary."""

from __future__ import annotations

from typing import Protocol


class Vocabulary(Protocol):
    """Text to ids and ids to bytes."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Ids of `text`; control tokens spelled in it are recognised only with `parse_special`."""

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""

    def is_end_of_generation(self, token: int) -> bool:
        """Whether the token ends an answer."""

    @property
    def bos_text(self) -> str:
        """BOS as templates spell it; empty when there is none."""

    @property
    def eos_text(self) -> str:
        """EOS as templates spell it; empty when there is none."""

    @property
    def adds_bos(self) -> bool:
        """Whether prompts of this model begin with BOS."""

    @property
    def adds_space_prefix(self) -> bool:
        """Whether tokenising puts a space before text that follows nothing or a control token (SentencePiece)."""
