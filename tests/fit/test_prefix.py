"""A header is read from the first bytes of a file, as they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import Header, HeaderCutShort, header_of_prefix, joined, read_header
from tests.fit import synthetic


def fetched(data: bytes, size: int, first: int) -> tuple[Header, list[int]]:
    """The header read by ranges: each answer says how far the next one must reach."""
    lengths = [first]
    while True:
        try:
            return header_of_prefix(data[: lengths[-1]], "remote.gguf", size), lengths
        except HeaderCutShort as short:
            if not lengths[-1] < short.needed <= len(data):
                pytest.fail(f"{short.needed} bytes were asked for, with {lengths[-1]} of {len(data)} at hand")
            lengths.append(max(short.needed, 2 * lengths[-1]))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.sliding(tmp_path_factory.mktemp("prefix") / "model.gguf")


@pytest.mark.parametrize("first", [0, 1, 4, 24, 1000, 100_000])
def test_the_first_bytes_are_enough_however_many_come_at_once(model: Path, first: int) -> None:
    whole = read_header(model)
    data = model.read_bytes()[: whole.data_start]
    header, lengths = fetched(data, model.stat().st_size, first)
    assert header == whole
    assert len(lengths) < 40


def test_no_more_is_ever_asked_for_than_the_header_has(model: Path) -> None:
    whole = read_header(model)
    data = model.read_bytes()[: whole.data_start]
    for length in range(0, len(data), 4001):
        with pytest.raises(HeaderCutShort) as cut:
            header_of_prefix(data[:length], "remote.gguf", model.stat().st_size)
        assert length < cut.value.needed <= len(data)


def test_nonsense_is_a_sentence_and_not_a_request_for_more(model: Path) -> None:
    size = model.stat().st_size
    with pytest.raises(ModelUnusable, match="not a GGUF"):
        header_of_prefix(b"<html>", "remote.gguf", size)
    with pytest.raises(ModelUnusable, match=r"remote\.gguf is damaged"):
        header_of_prefix(b"GGUF" + b"\xff" * 60, "remote.gguf", size)
    data = model.read_bytes()[: read_header(model).data_start]
    with pytest.raises(ModelUnusable, match="incomplete"):
        header_of_prefix(data, "remote.gguf", size - 1)


def test_values_per_layer_are_kept_and_vocabularies_are_not(tmp_path: Path) -> None:
    header = read_header(synthetic.shared_cache(tmp_path / "gemma4.gguf"))
    assert header.array_of_architecture("attention.head_count_kv") == (4, 4, 4, 1, 4, 4, 4, 1)
    assert header.array_of_architecture("attention.sliding_window_pattern") == (True, True, True, False) * 2
    assert header.array_lengths["tokenizer.ggml.scores"] == 8192
    assert "tokenizer.ggml.scores" not in header.arrays


def test_the_parts_of_a_split_model_make_one_header(tmp_path: Path) -> None:
    first = read_header(synthetic.dense(tmp_path / "a.gguf", layers=2))
    second = read_header(synthetic.dense(tmp_path / "b.gguf", layers=4))
    whole = joined([first, second])
    assert whole.metadata == first.metadata
    assert set(whole.tensors) == set(first.tensors) | set(second.tensors)
    assert whole.data_bytes == first.data_bytes + second.data_bytes
