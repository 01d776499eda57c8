"""A vocabulary small enough to read: words with their leading space, control tokens, BOS, optionally a dummy prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PIECES = re.compile(r" ?\w+|\n+|\s|[^\w\s]", re.DOTALL)


@dataclass
class ToyVocabulary:
    controls: tuple[str, ...] = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
    ends: tuple[str, ...] = ("</s>", "<|im_end|>")
    adds_bos: bool = False
    adds_space_prefix: bool = False
    bos_text: str = "<s>"
    eos_text: str = "</s>"
    _ids: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for text in self.controls:
            self._id(text)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        ids = [self._ids[self.bos_text]] if add_special and self.adds_bos else []
        parts = re.split("|".join(f"({re.escape(control)})" for control in self.controls), text)
        fragments = [part for part in parts if part] if parse_special else [text] if text else []
        for fragment in fragments:
            if parse_special and fragment in self.controls:
                ids.append(self._ids[fragment])
            else:
                # As llama.cpp does for SentencePiece: a space at the start and behind every control token.
                spaced = " " + fragment if self.adds_space_prefix else fragment
                ids += [self._id(piece) for piece in _PIECES.findall(spaced)]
        return ids

    def piece(self, token: int) -> bytes:
        text = self.spelled(token)
        return b"" if text in self.controls else text.encode()

    def spelled(self, token: int) -> str:
        return next(text for text, known in self._ids.items() if known == token)

    def spell(self, ids: list[int]) -> list[str]:
        return [self.spelled(token) for token in ids]

    def is_end_of_generation(self, token: int) -> bool:
        return self.spelled(token) in self.ends

    def _id(self, text: str) -> int:
        return self._ids.setdefault(text, len(self._ids))
