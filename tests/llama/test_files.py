"""A file that is no model, or a damaged one, is a sentence and never an abort."""

from __future__ import annotations

import random
from pathlib import Path

import gguf
import numpy as np
import pytest

from specchat.llama.errors import LlamaError, ModelUnusable
from specchat.llama.gguf import read_header
from specchat.llama.model import Model
from tests.tiny_model import write_model


def refused(path: Path) -> str:
    with pytest.raises(LlamaError) as caught:
        Model(path)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.mark.parametrize("tenth", range(10))
def test_a_truncated_file_is_named_as_incomplete_or_damaged(tiny: Path, tmp_path: Path, tenth: int) -> None:
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: len(data) * tenth // 10])
    assert any(word in refused(path) for word in ("empty", "incomplete", "damaged"))


def test_a_header_cut_at_any_byte_is_refused(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in range(0, 3000, 7):
        path.write_bytes(data[:length])
        with pytest.raises(ModelUnusable):
            read_header(path)


def test_random_bytes_are_no_model(tmp_path: Path) -> None:
    path = tmp_path / "noise.gguf"
    path.write_bytes(random.Random(1).randbytes(4096))
    assert "not a GGUF" in refused(path)
    path.write_bytes(b"GGUF" + random.Random(1).randbytes(4096))
    assert "damaged" in refused(path)


def test_flipped_bytes_in_the_header_never_crash_the_process(tiny: Path, tmp_path: Path) -> None:
    data = bytearray(tiny.read_bytes())
    chance = random.Random(3)
    path = tmp_path / "flipped.gguf"
    for _ in range(150):
        damaged = bytearray(data)
        for _ in range(3):
            damaged[chance.randrange(4, 2500)] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            read_header(path)
        except ModelUnusable as error:
            assert str(error).endswith(".")  # noqa: PT017 - most flips are refused, some change a harmless value


def test_a_directory_and_a_missing_file_are_said(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path)
    assert "There is no file" in refused(tmp_path / "none.gguf")


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = write_model(tmp_path / "x.gguf", architecture="mystery")
    assert "'mystery'" in refused(path)


def test_an_embedding_model_is_refused_as_one(tmp_path: Path) -> None:
    path = write_model(tmp_path / "x.gguf", architecture="bert", extra={"pooling_type": 1})
    assert "embedding model" in refused(path)
    path = write_model(tmp_path / "y.gguf", extra={"attention.causal": False})
    assert "embedding model" in refused(path)


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    assert refused(write_model(tmp_path / "t5.gguf", architecture="t5"))


def test_no_layers_and_no_vocabulary_are_refused(tmp_path: Path) -> None:
    assert "no layers" in refused(write_model(tmp_path / "x.gguf", layers=0))
    assert "no vocabulary" in refused(write_model(tmp_path / "y.gguf", tokens=False))


def test_the_header_tells_what_llama_cpp_says(demo: Path) -> None:
    header = read_header(demo)
    assert header.architecture == "llama"
    assert (header.number("block_count"), header.n_layer, header.n_nextn) == (30, 30, 0)
    assert header.n_tokens == header.array_lengths["tokenizer.ggml.tokens"] == 49_152
    assert header.data_bytes == demo.stat().st_size


def test_a_number_that_is_missing_or_something_else_is_0(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "test")
    writer.add_bool("test.flag", True)
    writer.add_float32("test.real", 2.5)
    writer.add_string("test.text", "3")
    writer.add_uint32("test.vocab_size", 7)
    writer.add_uint32("test.block_count", 5)
    writer.add_uint32("test.nextn_predict_layers", 2)
    writer.add_tensor("x", np.zeros(8, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = read_header(tmp_path / "x.gguf")
    assert [header.number(key) for key in ("flag", "real", "text", "nothing", "vocab_size")] == [0, 0, 0, 0, 7]
    assert (header.n_tokens, header.n_nextn, header.n_layer) == (7, 2, 3)
