"""Whether a DFlash head was made for a target, from the headers of their files."""

from __future__ import annotations

from specchat.drafters.heads.pairing import HeadMismatch, token_list_mismatch
from specchat.llama import dflash_file
from specchat.llama.gguf import Header
from specchat.llama.hidden import can_tap

_SHORTEST_BLOCK = 3
"""One token that is known and two to draft: to draft one at a time is no block."""


def tapped_layers(head: Header) -> tuple[int, ...]:
    """The target's layers whose inputs a DFlash head reads."""
    return tuple(int(layer) for layer in head.array_of_architecture(dflash_file.TAPPED_LAYERS) or ())


def require_dflash_pair(name: str, head: Header, target_name: str, target: Header) -> None:
    """Raise HeadMismatch, with the first reason, where the DFlash head `name` can't draft for the target."""
    why = _unusable(head) or _mismatch(head, target) or _tensor_mismatch(head)
    if why is not None:
        raise HeadMismatch(
            f"{name} can't draft for {target_name}: {why}. Choose a head that was trained for this model, or another "
            "--method."
        )


def _unusable(head: Header) -> str | None:
    """Why it can draft for no model."""
    if head.architecture != dflash_file.ARCHITECTURE:
        return f"it is a model of architecture {head.architecture!r} and no DFlash head"
    for tensor, part in dflash_file.UNKNOWN_PARTS.items():
        if tensor in head.tensors:
            return f"it drafts with {part}, which can't be driven here"
    block = head.of_architecture(dflash_file.BLOCK)
    if block is not None and head.number(dflash_file.BLOCK) < _SHORTEST_BLOCK:
        return f"it was trained on blocks of {block} tokens, and the first of them is known"
    mask = head.metadata.get(dflash_file.MASK_TOKEN)
    if not isinstance(mask, int) or not 0 <= mask < head.n_tokens:
        return "it names no mask among its tokens"
    keys, values = (_length(head, side) for side in ("key", "value"))
    if keys != values:
        return f"its keys have {keys:,} numbers and its values {values:,}, which llama.cpp can't compute"
    return None


def _length(head: Header, side: str) -> int:
    usual = head.number("embedding_length") // max(head.number("attention.head_count"), 1)
    return head.number(f"attention.{side}_length") or usual


def _mismatch(head: Header, target: Header) -> str | None:
    layers, n_layer = tapped_layers(head), target.n_layer
    if not can_tap(target.architecture):
        return f"llama.cpp can't read the layers of models of architecture {target.architecture!r}"
    if not layers:
        return "its file names no layers that it reads"
    if any(not 0 <= layer < n_layer for layer in layers):
        return (
            f"it reads the inputs of layers {', '.join(map(str, layers))}, and the model has layers 0 to {n_layer - 1}"
        )
    if (width := head.number("embedding_length")) != (theirs := target.number("embedding_length")):
        return f"it takes states of {width:,} numbers and the model has {theirs:,}"
    if head.n_tokens != target.n_tokens:
        return f"it has {head.n_tokens:,} tokens and the model {target.n_tokens:,}"
    return None


def _tensor_mismatch(head: Header) -> str | None:
    shapes = {name: place.shape for name, place in head.tensors.items()}
    joined = len(tapped_layers(head)) * head.number("embedding_length")
    if isinstance(head.of_architecture(dflash_file.ROPE_SECTIONS), int):
        return "it counts positions in several ways and doesn't list them"
    if shapes.get(dflash_file.FUSION, ())[:1] != (joined,):
        return "the matrix that joins the layers' states has another shape than its header says"
    return token_list_mismatch(head)
