"""Which of a model's tensors go to the GPU and which stay on the host.

The rules are llama.cpp's (`llama_model_base::load_tensors`, `llama_model_loader::create_tensor`): the input embedding
always stays on the host; the output counts as one layer more than there are; a model whose output shares the input
embedding has it twice once the output is on the GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from specchat.llama import eagle3_file
from specchat.llama.gguf import Header, TensorPlace

_LAYER: Final = re.compile(r"blk\.(\d+)\.")
_EMBEDDING: Final = "token_embd.weight"
_INPUT: Final = (_EMBEDDING, "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
_FIRST_LAYER: Final = ("rope_freqs", "per_layer_model_proj", "per_layer_proj_norm", "nextn.pre_projection")
"""Tensors without a layer number that llama.cpp creates together with the first layer."""
_ALIGNMENT: Final = 32
_REPACKED: Final = {2: "Q4_0", 12: "Q4_K", 20: "IQ4_NL", 39: "MXFP4"}
"""`ggml_type`s that an AVX2 build multiplies in another order (ggml-cpu/repack.cpp), and so keeps in its own copy."""


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of a model's tensors, by the part of the model that decides where they go."""

    input: int
    """The token embedding and what else is only looked up in: always on the host."""
    layers: tuple[int, ...]
    """One entry a layer, also for layers that predict further tokens (MTP), which are not loaded: 0."""
    output: int
    """The last norm and the output matrix, if it is a tensor of its own."""
    tied: int = 0
    """Bytes of the input embedding that serve as the output matrix too; 0 where the output has its own."""
    repacks_tied: bool = False
    """Whether a CPU keeps the shared matrix twice, since its kernels want the output's rows in another order."""
    largest: int = 0
    """The largest tensor of a layer; 0 where it is not known."""

    @property
    def total(self) -> int:
        """All tensors that are loaded, each once."""
        return self.input + sum(self.layers) + self.output

    def _first_on_device(self, gpu_layers: int) -> int:
        """The first layer that goes to the GPU; the output is layer number `len(layers)`."""
        most = len(self.layers) + 1
        return 0 if gpu_layers < 0 else most - min(gpu_layers, most)

    def places_layer(self, layer: int, gpu_layers: int) -> bool:
        """Whether `layer` is on the GPU with `gpu_layers` of them there (−1: all); its cache is beside it."""
        return layer >= self._first_on_device(gpu_layers)

    def on_device(self, gpu_layers: int) -> int:
        """Bytes on the GPU with `gpu_layers` layers there (−1: all). The padding of rows there, below 1 ‰, is left."""
        first = self._first_on_device(gpu_layers)
        output = self.output + self.tied if first <= len(self.layers) else 0
        return sum(self.layers[first:]) + output

    def on_host(self, gpu_layers: int) -> int:
        """Bytes on the host with `gpu_layers` layers on the GPU (0: none, a build for the CPU)."""
        first = self._first_on_device(gpu_layers)
        output = 0
        if first > len(self.layers):
            output = self.output + (self.tied if self.repacks_tied else 0)
        return self.input + sum(self.layers[:first]) + output


def _padded(place: TensorPlace) -> int:
    return -(-place.n_bytes // _ALIGNMENT) * _ALIGNMENT


def weights_of(header: Header, *, layers: int, nextn: int = 0) -> Weights:
    """The bytes of `header`'s tensors; after `layers` of a trunk `nextn` more predict further tokens.

    Those are left out, as llama.cpp does without `load_mtp` (`nextn_weights`).
    """
    per_layer, largest = [0] * (layers + nextn), 0
    beside = {"input": 0, "output": 0}
    for place in header.tensors.values():
        match = _LAYER.match(place.name)
        if match is not None and layers <= int(match[1]) < layers + nextn:
            continue
        if match is not None and int(match[1]) < layers:
            per_layer[int(match[1])] += _padded(place)
            largest = max(largest, place.n_bytes)
        elif place.name.startswith(_FIRST_LAYER):
            per_layer[0] += _padded(place)
        else:
            beside["input" if place.name in _INPUT else "output"] += _padded(place)
    embedding = header.tensors.get(_EMBEDDING)
    # A head without an output matrix of its own takes the target's.
    shared = (
        embedding if "output.weight" not in header.tensors and header.architecture != eagle3_file.ARCHITECTURE else None
    )
    return Weights(
        input=beside["input"],
        layers=tuple(per_layer),
        output=beside["output"],
        tied=_padded(shared) if shared else 0,
        repacks_tied=shared is not None and shared.kind in _REPACKED and shared.shape[-1] % 8 == 0,
        largest=largest,
    )


def nextn_weights(header: Header, *, layers: int, nextn: int) -> tuple[int, ...]:
    """The bytes of each of the `nextn` layers after a trunk of `layers`."""
    per_layer = [0] * nextn
    for place in header.tensors.values():
        match = _LAYER.match(place.name)
        if match is not None and layers <= int(match[1]) < layers + nextn:
            per_layer[int(match[1]) - layers] += _padded(place)
    return tuple(per_layer)
