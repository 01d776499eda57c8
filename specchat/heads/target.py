"""What a conversion must know of the target, from its GGUF header alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specchat.heads.errors import CheckpointUnusable
from specchat.llama.gguf import read_header

_ENDS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")


@dataclass(frozen=True, slots=True)
class Target:
    """The model that a head drafts for."""

    path: Path
    name: str
    layers: int
    """Without its own NextN layers."""
    width: int
    """Of its hidden state."""
    tokens: int
    """Size of its vocabulary."""
    ends: tuple[int, ...]
    """The tokens that its file names as ends of an answer."""


def read_target(path: Path) -> Target:
    """Read the header of the GGUF at `path`. Raises ModelUnusable for a file that is none or holds no model."""
    header = read_header(path)
    width, tokens = header.number("embedding_length"), header.n_tokens
    if not header.number("block_count") or not width or not tokens:
        raise CheckpointUnusable(f"{path} is no model that a head could draft for. Name the target's own GGUF.")
    ends = (header.metadata.get(f"tokenizer.ggml.{key}") for key in _ENDS)
    return Target(
        path=path,
        name=str(header.metadata.get("general.name") or path.stem),
        layers=header.n_layer,
        width=width,
        tokens=tokens,
        ends=tuple(sorted({int(end) for end in ends if isinstance(end, int) and 0 <= end < tokens})),
    )
