"""A DFlash head that was made for another model is refused, with the reason, before anything of it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specchat.drafters.heads.block_pairing import require_dflash_pair, tapped_layers
from specchat.drafters.heads.pairing import HeadMismatch
from specchat.llama.gguf import Header, read_header
from tests.dflash_models import write_dflash_head
from tests.head_models import write_eagle_head
from tests.tiny_model import write_model


def refuse(head: Path | Header, target: Path | Header, reason: str) -> None:
    headers = [read_header(source) if isinstance(source, Path) else source for source in (head, target)]
    with pytest.raises(HeadMismatch, match=reason) as refusal:
        require_dflash_pair("head.gguf", headers[0], "target.gguf", headers[1])
    assert str(refusal.value).startswith("head.gguf can't draft for target.gguf: ")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("pair") / "target.gguf", layers=4)


@pytest.mark.parametrize("kind", [{}, {"own_output": False}, {"draft_vocab": 50, "block": None}, {"layers": (0, 3)}])
def test_a_head_for_this_very_model_is_taken(target: Path, tmp_path: Path, kind: dict[str, Any]) -> None:
    head = read_header(write_dflash_head(tmp_path / "head.gguf", target, **kind))
    require_dflash_pair("head.gguf", head, "target.gguf", read_header(target))
    assert tapped_layers(head) == kind.get("layers", (1, 2, 3))


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"layers": (1, 2, 4)}, "layers 1, 2, 4, and the model has layers 0 to 3"),
        ({"layers": (-1, 2)}, "layers -1"),
        ({"layers": ()}, "names no layers"),
        ({"width": 64}, "states of 64 numbers and the model has 32"),
        ({"vocab_size": 300}, "300 tokens and the model 286"),
        ({"mask_token": None}, "names no mask"),
        ({"mask_token": 286}, "names no mask"),
        ({"block": 2}, "blocks of 2 tokens"),
        ({"markov": True}, "Markov head"),
    ],
)
def test_a_head_that_can_not_draft_for_it_is_refused(
    target: Path, tmp_path: Path, lie: dict[str, Any], reason: str
) -> None:
    refuse(write_dflash_head(tmp_path / "head.gguf", target, **lie), target, reason)


def test_a_file_that_is_no_dflash_head_is_refused(target: Path, tmp_path: Path) -> None:
    refuse(target, target, "'llama' and no DFlash head")
    refuse(write_eagle_head(tmp_path / "head.gguf", target), target, "'eagle3' and no DFlash head")


def test_a_model_whose_layers_can_not_be_read_is_refused(target: Path, tmp_path: Path) -> None:
    header = read_header(target)
    others = {key.replace("llama.", "qwen2."): value for key, value in header.metadata.items()}
    head = write_dflash_head(tmp_path / "head.gguf", target)
    refuse(head, replace(header, metadata={**others, "general.architecture": "qwen2"}), "architecture 'qwen2'")


def test_what_llama_cpp_would_abort_on_is_refused(target: Path, tmp_path: Path) -> None:
    head = read_header(write_dflash_head(tmp_path / "head.gguf", target, draft_vocab=50))
    refuse(replace(head, metadata={**head.metadata, "dflash.attention.value_length": 8}), target, "its values 8")
    for tensor, shape, reason in (("d2t", (49,), "not as long"), ("fc.weight", (64, 32), "joins the layers' states")):
        places = {**head.tensors, tensor: replace(head.tensors[tensor], shape=shape)}
        refuse(replace(head, tensors=places), target, reason)
