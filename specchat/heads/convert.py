"""From a published checkpoint to a GGUF file of a head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specchat.heads.checkpoint import Checkpoint, read_checkpoint
from specchat.heads.eagle3 import eagle3_head
from specchat.heads.errors import CheckpointUnusable
from specchat.heads.head_file import Progress
from specchat.heads.kinds import CheckpointKind, WeightType
from specchat.heads.medusa import medusa_head
from specchat.heads.target import read_target


@dataclass(frozen=True, slots=True)
class Converted:
    """What was written."""

    path: Path
    kind: CheckpointKind
    size: int
    """Bytes of the file."""
    draft_tokens: int | None
    """Tokens that the head can draft; None: all."""


def convert(
    source: Path,
    destination: Path | None = None,
    *,
    target: Path | None = None,
    kind: CheckpointKind | None = None,
    weight_type: WeightType = WeightType.Q8_0,
    draft_tokens: int | None = None,
    replace: bool = False,
    progress: Progress = lambda _done, _all: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Converted:
    """Convert the checkpoint in `source`, a directory or a file, to a GGUF at `destination`.

    `target` is the GGUF of the model it drafts for; without it config.json must say all. `kind` None: what the tensors
    are. `draft_tokens` bounds the vocabulary of Medusa heads. `destination` None: named after checkpoint, kind and type
    in the current directory. Raises CheckpointUnusable, ModelUnusable and ConversionStopped with a sentence, OSError.
    """
    checkpoint = read_checkpoint(source)
    kind = _kind(checkpoint, kind)
    if kind is CheckpointKind.EAGLE3 and draft_tokens is not None:
        raise CheckpointUnusable("The vocabulary of an EAGLE-3 head is its checkpoint's own; only Medusa's can be cut.")
    facts = None if target is None else read_target(target)
    if kind is CheckpointKind.EAGLE3:
        head = eagle3_head(checkpoint, facts)
    else:
        head = medusa_head(checkpoint, facts, draft_tokens)
    path = destination if destination is not None else Path(f"{checkpoint.name}-{kind}-{weight_type}.gguf")
    if path.exists() and not replace:
        raise CheckpointUnusable(f"{path} is there already. Use --force to replace it, or -o for another name.")
    head.write(path, weight_type, progress=progress, cancelled=cancelled)
    return Converted(path, kind, path.stat().st_size, None if head.ids is None else head.ids.size)


def _kind(checkpoint: Checkpoint, named: CheckpointKind | None) -> CheckpointKind:
    found = checkpoint.kind
    if named not in (None, found):
        raise CheckpointUnusable(f"{checkpoint.name} holds a head of kind {found}, not {named}.")
    return found
