"""A loaded GGUF model."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from specchat.llama.errors import DoesNotFit, ModelUnusable
from specchat.llama.gguf import Header, read_header
from specchat.llama.library import library
from specchat.llama.vocab import Vocab

ALL_LAYERS = -1


def _checked_header(path: Path) -> Header:
    """Refuse, with a sentence, what llama.cpp would abort on or can't chat with."""
    header = read_header(path)
    if not header.architecture or header.number("block_count") < 1:
        raise ModelUnusable(f"{path} holds no layers. It may be a vocabulary or an adapter, not a model.")
    if header.metadata.get("general.type", "model") != "model":
        raise ModelUnusable(f"{path} is a {header.metadata['general.type']}, not a model.")
    pooling = header.of_architecture("pooling_type")
    if pooling or header.of_architecture("attention.causal") is False:
        raise ModelUnusable(
            f"{path} is an embedding model ({header.architecture}): it makes vectors and can't write text."
        )
    if "tokenizer.ggml.tokens" not in header.array_lengths:
        raise ModelUnusable(f"{path} carries no vocabulary, so there is nothing to turn text into tokens with.")
    return header


class Model:
    """Weights and vocabulary, loaded from one GGUF file (the first part of a split one).

    `load_mtp`: also the NextN layers, which draft; without it they take no memory. Raises ModelUnusable for a file
    that can't be used, DoesNotFit when its weights can't be allocated.
    """

    _may_encode = False

    def __init__(self, path: Path, *, gpu_layers: int = ALL_LAYERS, load_mtp: bool = False) -> None:
        self.header = self._header_of(path)
        lib = library()
        self._api = lib.api
        self.path = path
        params = self._api.llama_model_default_params()
        params.n_gpu_layers = gpu_layers if gpu_layers >= 0 else 999
        params.load_mtp = load_mtp
        lib.log.forget()
        self.handle: Any = self._api.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise self._refusal(lib.log.last_complaint())
        self._read_properties()
        if self._api.llama_model_has_encoder(self.handle) and not self._may_encode:
            self.close()
            raise ModelUnusable(
                f"{path} is an encoder-decoder model ({self.header.architecture}); only decoders can chat here."
            )

    def _header_of(self, path: Path) -> Header:
        return _checked_header(path)

    def _refusal(self, complaint: str) -> ModelUnusable | DoesNotFit:
        if "allocat" in complaint or "out of memory" in complaint:
            return DoesNotFit(
                f"{self.path.name} does not fit in memory ({complaint}). Choose a smaller model or fewer --gpu-layers."
            )
        if "unknown model architecture" in complaint:
            return ModelUnusable(
                f"{self.path.name} is of architecture {self.header.architecture!r}, which this llama.cpp doesn't know."
            )
        reason = f" llama.cpp says: {complaint}." if complaint else ""
        return ModelUnusable(f"{self.path} can't be loaded.{reason} If it was downloaded, download it again.")

    def _read_properties(self) -> None:
        api, handle = self._api, self.handle
        self.n_layer: int = api.llama_model_n_layer(handle)
        self.n_embd: int = api.llama_model_n_embd(handle)
        self.n_ctx_train: int = api.llama_model_n_ctx_train(handle)
        self.n_swa: int = api.llama_model_n_swa(handle)
        self.size_bytes: int = api.llama_model_size(handle)
        self.recurrent: bool = bool(api.llama_model_is_recurrent(handle) or api.llama_model_is_hybrid(handle))
        self.vocab = Vocab(
            api.llama_model_get_vocab(handle),
            digest=self.header.vocabulary_digest,
            adds_space_prefix=self.header.metadata.get("tokenizer.ggml.add_space_prefix", True) is not False,
        )

    @property
    def name(self) -> str:
        """The model's own name for itself, else its file name."""
        return str(self.header.metadata.get("general.name") or self.path.stem)

    @property
    def chat_template(self) -> str | None:
        """The Jinja source of the file's own chat template."""
        source = self.header.metadata.get("tokenizer.chat_template")
        return source if isinstance(source, str) else None

    def close(self) -> None:
        """Free the weights; contexts of this model must be closed before."""
        if self.handle:
            self._api.llama_model_free(self.handle)
            self.handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
