"""A draft cut from the target itself: the same model without some of its middle layers.

After Draft & Verify (Zhang et al. 2309.08168, section 3): skipped layers cost agreement, least in the middle. Whole
blocks are dropped here, since llama.cpp has no graph with holes; the cut file keeps embeddings, head and vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.surgery import rewrite


def draft_directory() -> Path:
    """Where cut drafts are kept; deleting it costs a second at the next start."""
    return Path(platformdirs.user_cache_path("specchat", appauthor=False)) / "drafts"


def cut_draft(target: Path, drop_layers: Sequence[int]) -> Path:
    """The path of `target` without `drop_layers`, cut at the first call and kept under the target's content hash.

    Raises LlamaError when it can't be cut, OSError when the cache directory can't be written.
    """
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    layers = "-".join(map(str, sorted(drop_layers)))
    path = draft_directory() / f"{digest[:32]}-without-{layers}.gguf"
    if not _is_whole(path):
        rewrite(target, path, drop=drop_layers)
    return path


def _is_whole(path: Path) -> bool:
    try:
        read_header(path)
    except ModelUnusable:
        return False
    return True
