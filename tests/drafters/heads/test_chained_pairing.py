"""NextN layers that take turns are found in a model's file and beside it, and refused where they don't fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.drafters.heads.pairing import HeadMismatch, has_own_head, method_of, require_nextn_pair, takes_turns
from specchat.drafters.method import Method
from specchat.llama.gguf import Header, read_header
from tests.chained_models import write_chained_model
from tests.head_models import write_hybrid_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chained_model(tmp_path_factory.mktemp("chained") / "model.gguf")


def refuse(head: Header, target: Header, reason: str) -> None:
    with pytest.raises(HeadMismatch, match=reason):
        require_nextn_pair("head.gguf", head, "model.gguf", target)


@pytest.mark.parametrize("layers", [1, 3])
def test_any_number_of_them_drafts(tmp_path: Path, layers: int) -> None:
    path = write_chained_model(tmp_path / "model.gguf", nextn=layers)
    header = read_header(path)
    assert takes_turns(header)
    assert has_own_head(header)
    # A model with a head in its file is no head by itself.
    assert method_of(path) is None
    require_nextn_pair("model.gguf", header, "model.gguf", header)


def test_a_file_of_them_alone_is_a_head(model: Path, tmp_path: Path) -> None:
    path = write_chained_model(tmp_path / "head.gguf", trunk=False)
    assert method_of(path) is Method.MTP
    require_nextn_pair("head.gguf", read_header(path), "model.gguf", read_header(model))


def test_layers_of_another_model_are_refused(model: Path, tmp_path: Path) -> None:
    target = read_header(model)
    head = read_header(write_chained_model(tmp_path / "head.gguf", trunk=False))
    refuse(head, read_header(write_hybrid_model(tmp_path / "hybrid.gguf")), "'step35', and this is one of 'qwen35'")
    deeper = {**target.metadata, "step35.block_count": 9}
    refuse(head, replace(target, metadata=deeper), "models 2 layers deep, and this one is 6")


def test_layers_without_an_output_matrix_are_refused_not_aborted_on(model: Path, tmp_path: Path) -> None:
    head = read_header(write_chained_model(tmp_path / "head.gguf", trunk=False))
    bare = {name: place for name, place in head.tensors.items() if name != "output.weight"}
    refuse(replace(head, tensors=bare), read_header(model), "no output matrix")
    own = {f"blk.{layer}.nextn.shared_head_head.weight": head.tensors["output.weight"] for layer in (2, 3, 4)}
    require_nextn_pair("head.gguf", replace(head, tensors=bare | own), "model.gguf", read_header(model))


def test_one_layer_that_drafts_on_must_be_the_only_one(tmp_path: Path) -> None:
    hybrid = read_header(write_hybrid_model(tmp_path / "hybrid.gguf", nextn=2))
    assert not takes_turns(hybrid)
    assert not has_own_head(hybrid)
    refuse(hybrid, hybrid, "2 NextN layers")
