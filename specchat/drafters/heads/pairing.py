"""Whether a head was made for a target, from the headers of their files: llama.cpp checks little and aborts late."""

from __future__ import annotations

from pathlib import Path

from specchat.catalogue.reference import split_names
from specchat.drafters.method import Method
from specchat.llama import dflash_file, eagle3_file, medusa_file
from specchat.llama.errors import LlamaError
from specchat.llama.gguf import Header, joined, read_header
from specchat.llama.hidden import can_tap

_SHARED_SHAPE = ("key_length", "value_length", "key_length_swa", "value_length_swa", "sliding_window")
ASSISTANT = "gemma4-assistant"
_NEXTN_ARCHITECTURES = frozenset({"qwen35", "qwen35moe"})
"""Whose NextN layers are driven here: one layer that drafts on from its own state."""
_I64 = 27
"""`GGML_TYPE_I64`"""
_NEXTN_PARTS = ("eh_proj", "enorm", "hnorm")
_CHAINED_ARCHITECTURES = frozenset({"step35"})
"""Whose NextN layers take turns: each was trained to draft one token further than the one before."""


class HeadMismatch(LlamaError):
    """A head that can't draft for the target; the message says why."""


def method_of(path: Path) -> Method | None:
    """The method that drafts with the head in the file at `path`; None for a model. Raises ModelUnusable."""
    header = read_header(path)
    if header.architecture == eagle3_file.ARCHITECTURE:
        return Method.P_EAGLE if drafts_in_parallel(header) else Method.EAGLE
    if header.architecture == medusa_file.ARCHITECTURE:
        return Method.MEDUSA
    if header.architecture == dflash_file.ARCHITECTURE:
        return Method.DFLASH
    if header.architecture == ASSISTANT:
        return Method.MTP
    return Method.MTP if header.n_nextn and "blk.0.attn_norm.weight" not in header.tensors else None


def whole_header(path: Path) -> Header:
    """The header of a model with the tensors of all its parts, where it is split over files. Raises ModelUnusable."""
    return joined([read_header(path.with_name(name)) for name in split_names(path.name)])


def drafts_in_parallel(head: Header) -> bool:
    """Whether an EAGLE-3 head was trained to draft several tokens in one pass (P-EAGLE)."""
    return isinstance(head.of_architecture(eagle3_file.MASK_TOKEN), int)


def has_own_head(target: Header) -> bool:
    """Whether a model's own file holds a NextN layer that can draft for it here; of a split one, see `whole_header`."""
    alone = target.architecture in _NEXTN_ARCHITECTURES and target.n_nextn == 1
    return (alone or takes_turns(target)) and _has_nextn_tensors(target)


def takes_turns(head: Header) -> bool:
    """Whether NextN layers draft one token each, one after another, however many there are."""
    return head.architecture in _CHAINED_ARCHITECTURES and head.n_nextn > 0


def _has_nextn_tensors(header: Header) -> bool:
    # A file may name layers that it lacks: llama.cpp loads it and aborts once they are to draft.
    needed = (f"blk.{header.n_layer + i}.nextn.{part}.weight" for i in range(header.n_nextn) for part in _NEXTN_PARTS)
    return all(name in header.tensors for name in needed)


def eagle_layers(head: Header) -> tuple[int, ...]:
    """The target's layers whose inputs an EAGLE-3 head reads."""
    return tuple(int(layer) for layer in head.array_of_architecture(eagle3_file.TAPPED_LAYERS) or ())


def require_eagle_pair(name: str, head: Header, target_name: str, target: Header) -> None:
    """Raise HeadMismatch, with the first reason, where the EAGLE-3 head `name` can't draft for the target."""
    why = _eagle_mismatch(head, target)
    if why is not None:
        raise HeadMismatch(
            f"{name} can't draft for {target_name}: {why}. Choose a head that was trained for this model, or another "
            "--method."
        )


def _eagle_mismatch(head: Header, target: Header) -> str | None:
    layers, n_layer, width = eagle_layers(head), target.n_layer, target.number("embedding_length")
    if head.architecture != eagle3_file.ARCHITECTURE:
        return f"it is a model of architecture {head.architecture!r} and no EAGLE-3 head"
    if not can_tap(target.architecture):
        return f"llama.cpp can't read the layers of models of architecture {target.architecture!r}"
    if len(layers) != eagle3_file.N_TAPS:
        return f"an EAGLE-3 head reads {eagle3_file.N_TAPS} layers and its file names {len(layers)}"
    if any(not 0 <= layer < n_layer for layer in layers):
        return (
            f"it reads the inputs of layers {', '.join(map(str, layers))}, and the model has layers 0 to {n_layer - 1}"
        )
    if (hidden := head.number(eagle3_file.TARGET_WIDTH)) != width:
        return f"it takes states of {hidden:,} numbers and the model has {width:,}"
    if (why := _other_vocabulary(head, target)) is not None:
        return why
    return _tensor_mismatch(head, width)


def _tensor_mismatch(head: Header, width: int) -> str | None:
    """What of its tensors, or of the target's that it would borrow, doesn't fit together."""
    own, shapes = head.number("embedding_length"), {name: place.shape for name, place in head.tensors.items()}
    if head.number("block_count") != 1:
        return "llama.cpp runs EAGLE-3 heads of one layer"
    if own != width and not {"output.weight", "token_embd.weight"} <= shapes.keys():
        return f"it shares the model's embeddings or output matrix, but is {own:,} wide and the model {width:,}"
    if shapes.get("fc.weight", ())[:1] != (eagle3_file.N_TAPS * width,):
        return "the matrix that joins the layers' states has another shape than its header says"
    if drafts_in_parallel(head) and not _has_mask(head, own):
        return "its mask is no token of the vocabulary with a state of the head's width"
    return token_list_mismatch(head)


def token_list_mismatch(head: Header) -> str | None:
    """What is wrong with the list of tokens that a head drafts, if anything: llama.cpp aborts on it."""
    mapped = head.tensors.get(eagle3_file.TOKEN_IDS)
    if mapped is None:
        return None
    if mapped.kind != _I64:
        return "its list of tokens holds other numbers than I64"
    output = head.tensors.get("output.weight")
    if output is None or output.shape[1:] != mapped.shape:
        return "its list of tokens is not as long as its output matrix"
    return None


def _has_mask(head: Header, width: int) -> bool:
    states = head.array_lengths.get(f"{head.architecture}.{eagle3_file.MASK_STATE}")
    return head.number(eagle3_file.MASK_TOKEN) < head.n_tokens and states == width


def require_nextn_pair(name: str, head: Header, target_name: str, target: Header) -> None:
    """Raise HeadMismatch, with the first reason, where the NextN layers in the file `name` can't draft for the target.

    For layers in the target's own file both headers are the same.
    """
    why = _assistant_mismatch(head, target) if head.architecture == ASSISTANT else _nextn_mismatch(head, target)
    if why is not None:
        raise HeadMismatch(f"{name} can't draft for {target_name}: {why}. Use another --method.")


def _nextn_mismatch(head: Header, target: Header) -> str | None:
    if not head.n_nextn:
        return "it has no NextN layer"
    if head.architecture != target.architecture:
        return (
            f"it was made for models of architecture {head.architecture!r}, and this is one of {target.architecture!r}"
        )
    if head.architecture not in _NEXTN_ARCHITECTURES | _CHAINED_ARCHITECTURES:
        return f"NextN layers of architecture {head.architecture!r} can't be driven here"
    if head.n_nextn != 1 and not takes_turns(head):
        return f"it has {head.n_nextn} NextN layers, and only single ones can be driven here"
    if (width := head.number("embedding_length")) != (theirs := target.number("embedding_length")):
        return f"it was made for models {width:,} wide, and this one is {theirs:,}"
    if head.n_layer != target.n_layer:
        return f"it was made for models {head.n_layer:,} layers deep, and this one is {target.n_layer:,}"
    if not _has_nextn_tensors(head):
        return "it has no NextN layer, though its header says so"
    if takes_turns(head) and not _has_output(head):
        return "it has no output matrix"
    return _other_vocabulary(head, target)


def _has_output(head: Header) -> bool:
    """Whether each NextN layer has a matrix to make logits with: llama.cpp aborts where one has none."""
    own = (f"blk.{head.n_layer + i}.nextn.shared_head_head.weight" for i in range(head.n_nextn))
    return "output.weight" in head.tensors or all(name in head.tensors for name in own)


def _assistant_mismatch(head: Header, target: Header) -> str | None:
    if target.architecture != "gemma4":
        return f"it was made for models of architecture 'gemma4', and this is one of {target.architecture!r}"
    if (width := head.number("embedding_length_out")) != (theirs := target.number("embedding_length")):
        return f"it takes states of {width:,} numbers and the model has {theirs:,}"
    if (why := _other_vocabulary(head, target)) is not None:
        return why
    # It reads keys and values that the model's last two layers wrote.
    for key in _SHARED_SHAPE:
        if head.of_architecture(f"attention.{key}") != target.of_architecture(f"attention.{key}"):
            return f"its attention has another {key.replace('_', ' ')} than the model's"
    return None


def _other_vocabulary(head: Header, target: Header) -> str | None:
    if head.n_tokens == target.n_tokens:
        return None
    return f"it has {head.n_tokens:,} tokens and the model {target.n_tokens:,}"
