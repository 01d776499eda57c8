"""An EAGLE-3 checkpoint as an `eagle3` GGUF (Li et al. 2503.01840, section 3).

One layer that reads [token embedding, fused hidden state of three target layers]. Layouts of SpecForge, of the
authors' code and of the `speculators` library are known; llama.cpp's loader says which keys and tensors it wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

import numpy as np
from numpy.typing import NDArray

from specchat.heads.checkpoint import Checkpoint
from specchat.heads.errors import CheckpointUnusable
from specchat.heads.head_file import HeadFile, Matrix, Value
from specchat.heads.rope import interleaved, rope_keys
from specchat.heads.safetensors import StoredTensor
from specchat.heads.settings import Settings
from specchat.heads.target import Target
from specchat.llama import eagle3_file
from specchat.llama.eagle3_file import N_TAPS

_LAYER: Final = ("model.layers.0.", "midlayer.", "layers.0.", "model.midlayer.")
_IGNORED: Final = ("t2d", "rotary_emb.inv_freq", "verifier_norm.weight", "verifier_lm_head.weight")
"""The target's own parts, and tables that follow from others."""
_LAYER_IDS: Final = "eagle_aux_hidden_state_layer_ids"
_OFFSETS: Final = "d2t"
"""What to add to the number of a row of the head's output matrix for the target's token."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    width: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    target_width: int
    target_tokens: int

    @property
    def vectors(self) -> dict[str, tuple[str, int]]:
        """Norms: name in the checkpoint, name in the GGUF, size."""
        return {
            "layer.input_layernorm.weight": ("blk.0.attn_norm.weight", self.width),
            "layer.hidden_norm.weight": ("blk.0.attn_norm_2.weight", self.width),
            "layer.post_attention_layernorm.weight": ("blk.0.ffn_norm.weight", self.width),
            "norm.weight": ("output_norm.weight", self.width),
        }

    @property
    def matrices(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """Matrices that every head has: name in the checkpoint, name in the GGUF, rows and width."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        return {
            "fc.weight": ("fc.weight", (self.width, N_TAPS * self.target_width)),
            "layer.self_attn.q_proj.weight": ("blk.0.attn_q.weight", (queries, 2 * self.width)),
            "layer.self_attn.k_proj.weight": ("blk.0.attn_k.weight", (keys, 2 * self.width)),
            "layer.self_attn.v_proj.weight": ("blk.0.attn_v.weight", (keys, 2 * self.width)),
            "layer.self_attn.o_proj.weight": ("blk.0.attn_output.weight", (self.width, queries)),
            "layer.mlp.gate_proj.weight": ("blk.0.ffn_gate.weight", (self.ffn, self.width)),
            "layer.mlp.up_proj.weight": ("blk.0.ffn_up.weight", (self.ffn, self.width)),
            "layer.mlp.down_proj.weight": ("blk.0.ffn_down.weight", (self.width, self.ffn)),
        }


def eagle3_head(checkpoint: Checkpoint, target: Target | None) -> HeadFile:
    """What to write for `checkpoint`. Without a target, its config.json must say what is to be known of it.

    Raises CheckpointUnusable for tensors that are missing, too many or of another width, for a vocabulary that is not
    the target's, and for a config that llama.cpp's graph does not compute.
    """
    return _Conversion(checkpoint, target).head()


class _Conversion:
    def __init__(self, checkpoint: Checkpoint, target: Target | None) -> None:
        self._name = checkpoint.name
        self._settings = Settings(checkpoint.name, checkpoint.config)
        self._target = target
        self._tensors: dict[str, StoredTensor] = {}
        for name, tensor in checkpoint.tensors.items():
            other = self._tensors.setdefault(_plain_name(name), tensor)
            if other is not tensor:
                raise CheckpointUnusable(f"{self._name} holds the same tensor twice, as {other.name} and {name}.")
        self._used: set[str] = set()
        self._require_known_layer()
        self._sizes = self._read_sizes()

    def head(self) -> HeadFile:
        keys, slowed = rope_keys(self._settings, self._sizes.head_size)
        head = HeadFile(eagle3_file.ARCHITECTURE, self._metadata(keys))
        for name, (stored, size) in self._sizes.vectors.items():
            head.vectors[stored] = self._vector(name, size)
        if slowed is not None:
            head.vectors["rope_freqs.weight"] = slowed
        if self._settings.flag("norm_before_fc"):
            head.vectors["enc.output_norm.weight"] = self._vector(
                "input_norm.weight", N_TAPS * self._sizes.target_width
            )
        for name, (stored, shape) in self._sizes.matrices.items():
            head.matrices.append(self._matrix(name, stored, shape))
        head.ids = self._ids()
        head.matrices += self._outer_matrices(head.ids)
        self._require_all_used()
        return head

    def _require_known_layer(self) -> None:
        settings = self._settings
        layers, activation = settings.number("num_hidden_layers", 1), settings.values.get("hidden_act", "silu")
        if layers != 1:
            raise CheckpointUnusable(
                f"{self._name} is a head of {layers} layers; llama.cpp drafts with EAGLE-3 heads of one layer only."
            )
        if activation != "silu":
            raise settings.unknown("hidden_act", activation)
        if "layer.hidden_norm.weight" not in self._tensors and "norm.weight" not in self._tensors:
            raise CheckpointUnusable(
                f"{self._name} looks like a head of EAGLE-1 or EAGLE-2, without norms of its own; only EAGLE-3 can be "
                "converted."
            )

    def _read_sizes(self) -> _Sizes:
        settings, target = self._settings, self._target
        width, heads = settings.number("hidden_size"), settings.number("num_attention_heads")
        kv_heads = settings.number("num_key_value_heads", heads)
        head_size = settings.number("head_dim", width // heads or 1)
        if heads % kv_heads or head_size % 2:
            raise CheckpointUnusable(
                f"The config.json of {self._name} makes no sense: {heads} heads of {head_size} dimensions for "
                f"{kv_heads} heads of keys."
            )
        fused = self._of("fc.weight").shape
        target_width = target.width if target else settings.number("target_hidden_size", (fused or (0,))[-1] // N_TAPS)
        said = settings.values.get("target_hidden_size")
        if target is not None and isinstance(said, int) and said != target.width:
            raise CheckpointUnusable(
                f"{self._name} was made for a target of width {said:,}; {target.name} has width {target.width:,}."
            )
        return _Sizes(
            width, heads, kv_heads, head_size, settings.number("intermediate_size"), target_width,
            target.tokens if target else settings.number("vocab_size"),
        )  # fmt: skip

    def _metadata(self, rope: Mapping[str, Value]) -> dict[str, Value]:
        sizes, settings = self._sizes, self._settings
        own: dict[str, Value] = {
            "context_length": settings.number("max_position_embeddings", 2048),
            "embedding_length": sizes.width,
            "block_count": 1,
            "feed_forward_length": sizes.ffn,
            "attention.head_count": sizes.heads,
            "attention.head_count_kv": sizes.kv_heads,
            "attention.key_length": sizes.head_size,
            "attention.value_length": sizes.head_size,
            "attention.layer_norm_rms_epsilon": settings.real("rms_norm_eps", 1e-6),
            eagle3_file.TOKENS: sizes.target_tokens,
            eagle3_file.TAPPED_LAYERS: self._layers(),
            eagle3_file.TARGET_WIDTH: sizes.target_width,
            "norm_before_residual": settings.flag("norm_before_residual"),
            "norm_before_fc": settings.flag("norm_before_fc"),
            **rope,
        }
        metadata: dict[str, Value] = {"general.name": self._name, "tokenizer.ggml.model": "none"}
        return metadata | {f"{eagle3_file.ARCHITECTURE}.{key}": value for key, value in own.items()}

    def _layers(self) -> list[int]:
        """Which layers' inputs the head reads.

        The layout of `speculators` and llama.cpp counts inputs; ids in SpecForge's `eagle_config` count the layers
        whose output is meant, as SGLang reads them, which is the input of the next.
        """
        at_top, nested = self._settings.values.get(_LAYER_IDS), self._settings.table("eagle_config").get(_LAYER_IDS)
        layers = at_top or ([layer + 1 for layer in nested] if _are_ids(nested) else nested)
        if not layers:
            if self._target is None:
                raise CheckpointUnusable(
                    f"The config.json of {self._name} does not say which layers the head reads. Name its target with "
                    "--target."
                )
            n = self._target.layers
            layers = [2, n // 2, n - 3]
        if not _are_ids(layers) or len(layers) != N_TAPS:
            raise self._settings.unknown(_LAYER_IDS, layers)
        if self._target is not None and not all(0 <= layer < self._target.layers for layer in layers):
            raise CheckpointUnusable(
                f"{self._name} reads the layers {', '.join(map(str, layers))}, but {self._target.name} has "
                f"{self._target.layers}. Name the target it was trained for with --target."
            )
        return list(layers)

    def _ids(self) -> NDArray[np.int64] | None:
        """The target's token for each row of the head's own output matrix; the checkpoint holds differences."""
        if _OFFSETS not in self._tensors:
            return None
        offsets = self._of(_OFFSETS).integers().ravel()
        ids = offsets + np.arange(offsets.size, dtype=np.int64)
        if not ids.size or ids.min() < 0 or ids.max() >= self._sizes.target_tokens or np.unique(ids).size != ids.size:
            raise CheckpointUnusable(
                f"The draft vocabulary of {self._name} names tokens twice or past the target's "
                f"{self._sizes.target_tokens:,}. Name the target it was trained for with --target."
            )
        return ids

    def _outer_matrices(self, ids: NDArray[np.int64] | None) -> list[Matrix]:
        """The head's own token embedding and output matrix; what it has none of, llama.cpp takes of the target."""
        sizes, found = self._sizes, []
        if "embed_tokens.weight" in self._tensors:
            found.append(self._vocabulary_matrix("embed_tokens.weight", "token_embd.weight", sizes.target_tokens))
        elif sizes.width != sizes.target_width:
            raise self._not_shared("embed_tokens.weight")
        if "lm_head.weight" in self._tensors:
            rows = sizes.target_tokens if ids is None else ids.size
            found.append(self._vocabulary_matrix("lm_head.weight", "output.weight", rows, padded=ids is None))
        elif ids is not None or sizes.width != sizes.target_width:
            raise self._not_shared("lm_head.weight")
        return found

    def _not_shared(self, name: str) -> CheckpointUnusable:
        sizes = self._sizes
        return CheckpointUnusable(
            f"{self._name} has no tensor {name}, and the target's can't stand in for it: "
            + (
                "the head has a vocabulary of its own."
                if sizes.width == sizes.target_width
                else f"the head's width is {sizes.width:,} and the target's {sizes.target_width:,}."
            )
        )

    def _vocabulary_matrix(self, name: str, stored: str, rows: int, *, padded: bool = True) -> Matrix:
        """A matrix with a row a token; where it may be padded, what lies past the vocabulary is left away."""
        tensor = self._of(name)
        fits = len(tensor.shape) == 2 and (tensor.shape[0] == rows or (tensor.shape[0] > rows and padded))
        if not fits or tensor.shape[1] != self._sizes.width:
            raise self._wrong_shape(tensor, (rows, self._sizes.width))
        return Matrix(stored, rows, self._sizes.width, tensor.floats)

    def _matrix(self, name: str, stored: str, shape: tuple[int, int]) -> Matrix:
        tensor = self._of(name)
        if tensor.shape != shape:
            raise self._wrong_shape(tensor, shape)
        heads = {"attn_q": self._sizes.heads, "attn_k": self._sizes.kv_heads}.get(stored.split(".")[-2])
        if heads is None:
            return Matrix(stored, *shape, tensor.floats)
        order = interleaved(heads, self._sizes.head_size)
        return Matrix(stored, *shape, lambda rows: tensor.floats(order[rows]))

    def _vector(self, name: str, size: int) -> NDArray[np.float32]:
        tensor = self._of(name)
        if tensor.shape != (size,):
            raise self._wrong_shape(tensor, (size,))
        return np.ascontiguousarray(tensor.floats())

    def _of(self, name: str) -> StoredTensor:
        self._used.add(name)
        try:
            return self._tensors[name]
        except KeyError:
            shown = name.replace("layer.", "midlayer.", 1) if name.startswith("layer.") else name
            raise CheckpointUnusable(
                f"{self._name} lacks the tensor {shown}. If it has more than one file, all must be in its directory."
            ) from None

    def _wrong_shape(self, tensor: StoredTensor, needed: tuple[int, ...]) -> CheckpointUnusable:
        of = f"for {self._target.name}" if self._target is not None else "by its config.json"
        return CheckpointUnusable(
            f"{tensor.name} of {self._name} is {_sizes_told(tensor.shape)}; {of} it must be {_sizes_told(needed)}."
        )

    def _require_all_used(self) -> None:
        unused = (tensor.name for name, tensor in self._tensors.items() if name not in self._used)
        unknown = sorted(name for name in unused if not name.endswith(_IGNORED))
        if unknown:
            raise CheckpointUnusable(
                f"{self._name} has tensors that llama.cpp's EAGLE-3 graph does not compute: {', '.join(unknown[:4])}"
                f"{' and others' if len(unknown) > 4 else ''}."
            )


def _plain_name(name: str) -> str:
    """The name without where a layout puts it; the one layer is called `layer`."""
    for prefix in _LAYER:
        if name.startswith(prefix):
            return f"layer.{name.removeprefix(prefix)}"
    return name.removeprefix("model.")


def _are_ids(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _sizes_told(shape: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in shape) or "a single number"
