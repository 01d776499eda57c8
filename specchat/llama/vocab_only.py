"""A model's vocabulary without its weights, for turning text into tokens only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.library import library
from specchat.llama.vocab import Vocab


@contextmanager
def vocabulary_of(path: Path) -> Iterator[tuple[Vocab, str]]:
    """The vocabulary in the GGUF file at `path`, and the model's own name; valid inside the `with` block.

    Raises ModelUnusable for a file that can't be used or has no vocabulary.
    """
    header = read_header(path)
    if not header.vocabulary_digest:
        raise ModelUnusable(f"{path} carries no vocabulary, so there is nothing to turn text into tokens with.")
    lib = library()
    params = lib.api.llama_model_default_params()
    params.vocab_only = True
    lib.log.forget()
    handle = lib.api.llama_model_load_from_file(str(path).encode(), params)
    if not handle:
        raise ModelUnusable(f"The vocabulary of {path} can't be loaded. llama.cpp says: {lib.log.last_complaint()}.")
    try:
        vocab = Vocab(
            lib.api.llama_model_get_vocab(handle),
            digest=header.vocabulary_digest,
            adds_space_prefix=header.metadata.get("tokenizer.ggml.add_space_prefix", True) is not False,
        )
        yield vocab, str(header.metadata.get("general.name") or path.stem)
    finally:
        lib.api.llama_model_free(handle)
