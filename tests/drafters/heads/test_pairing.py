"""A head that was made for another model is refused, with the reason, before anything of it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specchat.drafters.heads.pairing import (
    HeadMismatch,
    eagle_layers,
    has_own_head,
    method_of,
    require_eagle_pair,
    require_nextn_pair,
    whole_header,
)
from specchat.drafters.method import Method
from specchat.llama.gguf import Header, read_header
from tests.assistant_models import write_assistant, write_gemma4
from tests.fit.split_model import split
from tests.head_models import write_eagle_head, write_hybrid_model, write_nextn_sidecar
from tests.tiny_model import write_model


def with_key(header: Header, key: str, value: int | str) -> Header:
    return replace(header, metadata={**header.metadata, key: value})


def refuse_eagle(head: Path | Header, target: Path | Header, reason: str) -> None:
    headers = [read_header(source) if isinstance(source, Path) else source for source in (head, target)]
    with pytest.raises(HeadMismatch, match=reason) as refusal:
        require_eagle_pair("head.gguf", headers[0], "target.gguf", headers[1])
    assert str(refusal.value).startswith("head.gguf can't draft for target.gguf: ")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("pair") / "target.gguf", layers=4)


def test_a_head_for_this_very_model_is_taken(target: Path, tmp_path: Path) -> None:
    head = write_eagle_head(tmp_path / "head.gguf", target, layers=(0, 1, 3), draft_vocab=50)
    require_eagle_pair("head.gguf", read_header(head), "target.gguf", read_header(target))
    assert eagle_layers(read_header(head)) == (0, 1, 3)
    assert method_of(head) is Method.EAGLE


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"layers": (1, 2, 4)}, "layers 1, 2, 4, and the model has layers 0 to 3"),
        ({"layers": (-1, 2, 3)}, "layers -1"),
        ({"layers": (1, 2)}, "reads 3 layers and its file names 2"),
        ({"target_hidden_size": 64}, "states of 64 numbers and the model has 32"),
        ({"vocab_size": 300}, "300 tokens and the model 286"),
    ],
)
def test_a_head_for_another_model_is_refused(target: Path, tmp_path: Path, lie: dict[str, int], reason: str) -> None:
    refuse_eagle(write_eagle_head(tmp_path / "head.gguf", target, **lie), target, reason)  # type: ignore[arg-type]


def test_a_model_whose_layers_can_not_be_read_is_refused(target: Path, tmp_path: Path) -> None:
    head = write_eagle_head(tmp_path / "head.gguf", target)
    header = read_header(target)
    others = {key.replace("llama.", "qwen2."): value for key, value in header.metadata.items()}
    refuse_eagle(head, replace(header, metadata={**others, "general.architecture": "qwen2"}), "architecture 'qwen2'")


def test_a_file_that_is_no_eagle_head_is_refused(target: Path) -> None:
    refuse_eagle(target, target, "'llama' and no EAGLE-3 head")


def test_a_narrower_head_must_bring_its_own_matrices(target: Path, tmp_path: Path) -> None:
    shared = read_header(write_eagle_head(tmp_path / "shared.gguf", target, own_output=False))
    refuse_eagle(with_key(shared, "eagle3.embedding_length", 16), target, "16 wide and the model 32")


def test_a_head_of_several_layers_is_refused_not_aborted_on(target: Path, tmp_path: Path) -> None:
    head = read_header(write_eagle_head(tmp_path / "head.gguf", target))
    refuse_eagle(with_key(head, "eagle3.block_count", 2), target, "one layer")


def test_a_list_of_tokens_must_be_as_long_as_the_output_matrix(target: Path, tmp_path: Path) -> None:
    head = read_header(write_eagle_head(tmp_path / "head.gguf", target, draft_vocab=50))
    places = {**head.tensors, "d2t": replace(head.tensors["d2t"], shape=(49,))}
    refuse_eagle(replace(head, tensors=places), target, "not as long as its output matrix")


@pytest.mark.parametrize("token", [286, 400])
def test_a_mask_must_be_a_token_of_the_vocabulary(target: Path, tmp_path: Path, token: int) -> None:
    refuse_eagle(write_eagle_head(tmp_path / "head.gguf", target, mask_token=token), target, "mask is no token")


def test_a_head_that_drafts_in_parallel_is_known_by_its_mask(target: Path, tmp_path: Path) -> None:
    head = write_eagle_head(tmp_path / "head.gguf", target, mask_token=2)
    require_eagle_pair("head.gguf", read_header(head), "target.gguf", read_header(target))
    assert method_of(head) is Method.P_EAGLE
    refuse_eagle(replace(read_header(head), array_lengths={}), target, "0 tokens|mask is no token")


def test_nextn_layers_are_found_in_the_target_and_beside_it(tmp_path: Path) -> None:
    hybrid, sidecar = write_hybrid_model(tmp_path / "hybrid.gguf"), write_nextn_sidecar(tmp_path / "side.gguf")
    without = write_hybrid_model(tmp_path / "without.gguf", nextn=0)
    assert has_own_head(read_header(hybrid))
    assert not has_own_head(read_header(without))
    # Only a file without a trunk is a head by itself.
    assert method_of(sidecar) is Method.MTP
    assert method_of(hybrid) is None
    require_nextn_pair("side.gguf", read_header(sidecar), "hybrid.gguf", read_header(hybrid))
    require_nextn_pair("side.gguf", read_header(sidecar), "without.gguf", read_header(without))


def test_of_a_model_in_several_files_the_layers_are_looked_for_in_all_of_them(tmp_path: Path) -> None:
    parts = split(tmp_path / "hybrid.gguf", lambda: write_hybrid_model(tmp_path / "hybrid.gguf"))
    assert len(parts) > 2
    assert not has_own_head(read_header(parts[0]))
    assert has_own_head(whole_header(parts[0]))
    # Declared, but in none of them: llama.cpp would load it and end the process later.
    for part in parts:
        names = read_header(part).tensors
        if any("nextn.enorm" in name for name in names):
            part.write_bytes(part.read_bytes().replace(b"nextn.enorm", b"nextn.other"))
    assert not has_own_head(whole_header(parts[0]))


@pytest.mark.parametrize("kind", ["I32", "short"])
def test_a_damaged_list_of_tokens_is_refused_not_aborted_on(target: Path, tmp_path: Path, kind: str) -> None:
    head = read_header(write_eagle_head(tmp_path / "head.gguf", target, draft_vocab=50))
    listed = head.tensors["d2t"]
    if kind == "short":
        short = replace(listed, shape=(49,))
        refuse_eagle(replace(head, tensors={**head.tensors, "d2t": short}), target, "not as long")
    else:
        half = replace(listed, kind=26)
        refuse_eagle(replace(head, tensors={**head.tensors, "d2t": half}), target, "other numbers than I64")


def test_an_assistant_is_taken_for_its_own_model_only(target: Path, tmp_path: Path) -> None:
    model, path = read_header(write_gemma4(tmp_path / "model.gguf")), write_assistant(tmp_path / "assistant.gguf")
    head = read_header(path)
    assert method_of(path) is Method.MTP
    require_nextn_pair("assistant.gguf", head, "model.gguf", model)
    for other, reason in (
        (read_header(target), "'gemma4', and this is one of 'llama'"),
        (with_key(model, "gemma4.embedding_length", 128), "states of 64 numbers and the model has 128"),
        (with_key(model, "gemma4.attention.key_length_swa", 64), "another key length swa"),
    ):
        with pytest.raises(HeadMismatch, match=reason):
            require_nextn_pair("assistant.gguf", head, "model.gguf", other)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("qwen35.embedding_length", 128, "models 128 wide, and this one is 64"),
        ("qwen35.block_count", 9, "models 8 layers deep, and this one is 4"),
        ("qwen35.nextn_predict_layers", 2, "2 NextN layers"),
        ("qwen35.nextn_predict_layers", 0, "no NextN layer"),
    ],
)
def test_nextn_layers_of_another_model_are_refused(tmp_path: Path, key: str, value: int, reason: str) -> None:
    hybrid = read_header(write_hybrid_model(tmp_path / "hybrid.gguf"))
    sidecar = read_header(write_nextn_sidecar(tmp_path / "side.gguf"))
    with pytest.raises(HeadMismatch, match=reason):
        require_nextn_pair("side.gguf", with_key(sidecar, key, value), "hybrid.gguf", hybrid)


def test_a_file_without_the_layers_that_it_names_is_refused_not_aborted_on(tmp_path: Path) -> None:
    # Published files carry the key also where the tensors were left out.
    hybrid = read_header(write_hybrid_model(tmp_path / "hybrid.gguf"))
    bare = replace(hybrid, tensors={name: place for name, place in hybrid.tensors.items() if "nextn" not in name})
    assert not has_own_head(bare)
    with pytest.raises(HeadMismatch, match="no NextN layer"):
        require_nextn_pair("bare.gguf", bare, "bare.gguf", bare)
