"""The model's vocabulary: text to ids, ids to bytes."""

from __future__ import annotations

import ctypes
from typing import Any

from specchat.llama.errors import LlamaError
from specchat.llama.library import library

_TYPE_SPM = 1
_MAX_PIECE_BYTES = 512


class Vocab:
    """Typed access to `llama_vocab`; valid as long as its model."""

    def __init__(self, handle: Any, *, adds_space_prefix: bool, digest: str) -> None:
        self._api = library().api
        self._handle = handle
        self._pieces: dict[int, bytes] = {}
        self._adds_space_prefix = adds_space_prefix
        self.digest = digest
        """Equal for models that share all token texts."""
        self._buffer = ctypes.create_string_buffer(_MAX_PIECE_BYTES)
        self.size: int = self._api.llama_vocab_n_tokens(handle)
        self.type: int = self._api.llama_vocab_type(handle)
        self._ends: dict[int, bool] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """Token ids of `text`; special tokens in it are recognised only with `parse_special`.

        Raises LlamaError if llama.cpp refuses the text.
        """
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 8
        for _ in range(2):
            tokens = (ctypes.c_int32 * capacity)()
            n = self._api.llama_tokenize(self._handle, data, len(data), tokens, capacity, add_special, parse_special)
            if n >= 0:
                return list(tokens[:n])
            capacity = -n
        raise LlamaError("The text could not be tokenised by this model's vocabulary.")

    def piece(self, token: int) -> bytes:
        """The bytes a token stands for; empty for control tokens."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._render(token, special=False)
        return known

    def text(self, token: int) -> str:
        """A token as the vocabulary file spells it, control tokens included; empty when there is none."""
        if not 0 <= token < self.size:
            return ""
        raw = self._api.llama_vocab_get_text(self._handle, token)
        return str((raw or b"").decode("utf-8", errors="replace"))

    def _render(self, token: int, *, special: bool) -> bytes:
        if not 0 <= token < self.size:
            # C throws across the language border on an id outside the vocabulary.
            return b""
        n = self._api.llama_token_to_piece(self._handle, token, self._buffer, _MAX_PIECE_BYTES, 0, special)
        if n >= 0:
            return self._buffer.raw[:n]
        large = ctypes.create_string_buffer(-n)
        n = self._api.llama_token_to_piece(self._handle, token, large, -n, 0, special)
        return large.raw[: max(n, 0)]

    def is_end_of_generation(self, token: int) -> bool:
        """Whether the token ends an answer (EOS, EOT, …)."""
        known = self._ends.get(token)
        if known is None:
            known = self._ends[token] = 0 <= token < self.size and bool(
                self._api.llama_vocab_is_eog(self._handle, token)
            )
        return known

    @property
    def adds_bos(self) -> bool:
        """Whether prompts of this model begin with BOS."""
        return bool(self._api.llama_vocab_get_add_bos(self._handle))

    @property
    def adds_space_prefix(self) -> bool:
        """Whether tokenising puts a space before text that follows nothing or a special token."""
        return self.type == _TYPE_SPM and self._adds_space_prefix

    @property
    def bos_text(self) -> str:
        """BOS as the chat template spells it."""
        return self.text(self._api.llama_vocab_bos(self._handle))

    @property
    def eos_text(self) -> str:
        """EOS as the chat template spells it."""
        return self.text(self._api.llama_vocab_eos(self._handle))
