"""Whether a head was made for a target, from the headers of their files: llama.cpp checks little and aborts late."""

from __future__ import annotations

from pathlib import Path

from specchat.drafters.method import Method
from specchat.llama import medusa_file
from specchat.llama.errors import LlamaError
from specchat.llama.gguf import Header, read_header
from specchat.llama.hidden import can_tap
from specchat.llama.trained_head import EAGLE3, MASK_STATE, MASK_TOKEN

_TOKENS = "tokenizer.ggml.tokens"
_EAGLE3_LAYERS = 3
_SHARED_SHAPE = ("key_length", "value_length", "key_length_swa", "value_length_swa", "sliding_window")
ASSISTANT = "gemma4-assistant"
_NEXTN_ARCHITECTURES = frozenset({"qwen35", "qwen35moe"})
"""Whose NextN layers are driven here: one layer that drafts on from its own state."""


class HeadMismatch(LlamaError):
    """A head that can't draft for the target; the message says why."""


def method_of(path: Path) -> Method | None:
    """The method that drafts with the head in the file at `path`; None for a model. Raises ModelUnusable."""
    header = read_header(path)
    if header.architecture == EAGLE3:
        return Method.P_EAGLE if drafts_in_parallel(header) else Method.EAGLE
    if header.architecture == medusa_file.ARCHITECTURE:
        return Method.MEDUSA
    if header.architecture == ASSISTANT:
        return Method.MTP
    return Method.MTP if n_nextn(header) and "blk.0.attn_norm.weight" not in header.tensors else None


def drafts_in_parallel(head: Header) -> bool:
    """Whether an EAGLE-3 head was trained to draft several tokens in one pass (P-EAGLE)."""
    return isinstance(head.of_architecture(MASK_TOKEN), int)


def n_nextn(header: Header) -> int:
    """NextN layers in a file."""
    layers = header.of_architecture("nextn_predict_layers")
    return layers if isinstance(layers, int) else 0


def has_own_head(target: Header) -> bool:
    """Whether a model's own file holds a NextN layer that can draft for it here."""
    return target.architecture in _NEXTN_ARCHITECTURES and n_nextn(target) == 1 and _has_nextn_tensors(target)


def _has_nextn_tensors(header: Header) -> bool:
    # A file split into parts holds its last layer in a later one, which this header doesn't describe.
    split = header.metadata.get("split.count", 0)
    return any(".nextn.eh_proj" in name for name in header.tensors) or (isinstance(split, int) and split > 1)


def eagle_layers(head: Header) -> tuple[int, ...]:
    """The target's layers whose inputs an EAGLE-3 head reads."""
    return tuple(int(layer) for layer in head.array_of_architecture("target_layers") or ())


def require_eagle_pair(name: str, head: Header, target_name: str, target: Header) -> None:
    """Raise HeadMismatch, with the first reason, where the EAGLE-3 head `name` can't draft for the target."""
    why = _eagle_mismatch(head, target)
    if why is not None:
        raise HeadMismatch(
            f"{name} can't draft for {target_name}: {why}. Choose a head that was trained for this model, or another "
            "--method."
        )


def _eagle_mismatch(head: Header, target: Header) -> str | None:
    layers, n_layer = eagle_layers(head), _number(target, "block_count") - n_nextn(target)
    width, n_tokens = _number(target, "embedding_length"), target.array_lengths.get(_TOKENS, 0)
    if head.architecture != EAGLE3:
        return f"it is a model of architecture {head.architecture!r} and no EAGLE-3 head"
    if not can_tap(target.architecture):
        return f"llama.cpp can't read the layers of models of architecture {target.architecture!r}"
    if len(layers) != _EAGLE3_LAYERS:
        return f"an EAGLE-3 head reads {_EAGLE3_LAYERS} layers and its file names {len(layers)}"
    if any(not 0 <= layer < n_layer for layer in layers):
        return (
            f"it reads the inputs of layers {', '.join(map(str, layers))}, and the model has layers 0 to {n_layer - 1}"
        )
    if (hidden := _number(head, "target_hidden_size")) != width:
        return f"it takes states of {hidden:,} numbers and the model has {width:,}"
    if (tokens := _n_tokens(head)) != n_tokens:
        return f"it has {tokens:,} tokens and the model {n_tokens:,}"
    return _tensor_mismatch(head, width)


def _tensor_mismatch(head: Header, width: int) -> str | None:
    """What of its tensors, or of the target's that it would borrow, doesn't fit together."""
    own, shapes = _number(head, "embedding_length"), {name: place.shape for name, place in head.tensors.items()}
    if _number(head, "block_count") != 1:
        return "llama.cpp runs EAGLE-3 heads of one layer"
    if own != width and not {"output.weight", "token_embd.weight"} <= shapes.keys():
        return f"it shares the model's embeddings or output matrix, but is {own:,} wide and the model {width:,}"
    if shapes.get("fc.weight", ())[:1] != (_EAGLE3_LAYERS * width,):
        return "the matrix that joins the layers' states has another shape than its header says"
    if drafts_in_parallel(head) and not _has_mask(head, own):
        return "its mask is no token of the vocabulary with a state of the head's width"
    mapped = shapes.get("d2t")
    if mapped is not None and shapes.get("output.weight", (0, 0))[1:] != mapped:
        return "its list of tokens is not as long as its output matrix"
    return None


def _has_mask(head: Header, width: int) -> bool:
    return _number(head, MASK_TOKEN) < _n_tokens(head) and head.array_lengths.get(f"{EAGLE3}.{MASK_STATE}") == width


def require_nextn_pair(name: str, head: Header, target_name: str, target: Header) -> None:
    """Raise HeadMismatch, with the first reason, where the NextN layers in the file `name` can't draft for the target.

    For layers in the target's own file both headers are the same.
    """
    why = _assistant_mismatch(head, target) if head.architecture == ASSISTANT else _nextn_mismatch(head, target)
    if why is not None:
        raise HeadMismatch(f"{name} can't draft for {target_name}: {why}. Use another --method.")


def _nextn_mismatch(head: Header, target: Header) -> str | None:
    if not n_nextn(head) or not _has_nextn_tensors(head):
        return "it has no NextN layer"
    if head.architecture != target.architecture:
        return (
            f"it was made for models of architecture {head.architecture!r}, and this is one of {target.architecture!r}"
        )
    if head.architecture not in _NEXTN_ARCHITECTURES:
        return f"NextN layers of architecture {head.architecture!r} can't be driven here"
    if n_nextn(head) != 1:
        return f"it has {n_nextn(head)} NextN layers, and only single ones can be driven here"
    for key, what in (("embedding_length", "wide"), ("block_count", "layers deep")):
        ours, theirs = _trunk(head, key), _trunk(target, key)
        if ours != theirs:
            return f"it was made for models {ours:,} {what}, and this one is {theirs:,}"
    if (tokens := _n_tokens(head)) != (others := target.array_lengths.get(_TOKENS, 0)):
        return f"it has {tokens:,} tokens and the model {others:,}"
    return None


def _assistant_mismatch(head: Header, target: Header) -> str | None:
    if target.architecture != "gemma4":
        return f"it was made for models of architecture 'gemma4', and this is one of {target.architecture!r}"
    if (width := _number(head, "embedding_length_out")) != (theirs := _number(target, "embedding_length")):
        return f"it takes states of {width:,} numbers and the model has {theirs:,}"
    if (tokens := _n_tokens(head)) != (others := target.array_lengths.get(_TOKENS, 0)):
        return f"it has {tokens:,} tokens and the model {others:,}"
    # It reads keys and values that the model's last two layers wrote.
    for key in _SHARED_SHAPE:
        if head.of_architecture(f"attention.{key}") != target.of_architecture(f"attention.{key}"):
            return f"its attention has another {key.replace('_', ' ')} than the model's"
    return None


def _trunk(header: Header, key: str) -> int:
    return _number(header, key) - (n_nextn(header) if key == "block_count" else 0)


def _number(header: Header, key: str) -> int:
    value = header.of_architecture(key)
    return value if isinstance(value, int) else 0


def _n_tokens(header: Header) -> int:
    return header.array_lengths.get(_TOKENS) or _number(header, "vocab_size")
