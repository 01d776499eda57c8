"""What is no checkpoint is refused with a sentence, and a conversion leaves a whole file or none."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from specchat.heads.convert import convert
from specchat.heads.errors import CheckpointUnusable, ConversionStopped
from specchat.heads.kinds import CheckpointKind, WeightType
from specchat.heads.safetensors import read_tensors
from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import read_header
from tests.heads.checkpoints import medusa, write_safetensors


def test_values_come_back_as_they_were_stored(tmp_path: Path) -> None:
    values = np.array([[1.5, -2.0], [3.25, 1e-3], [65504.0, 0.0]], dtype=np.float32)
    for kind in ("F32", "F16", "BF16"):
        path = write_safetensors(tmp_path / f"{kind}.safetensors", {"a": values, "n": np.arange(3)}, kind)
        tensors = read_tensors(path)
        np.testing.assert_allclose(tensors["a"].floats(), values, rtol=2**-7)
        np.testing.assert_array_equal(tensors["a"].floats(np.array([2, 0])), tensors["a"].floats()[[2, 0]])
        assert tensors["n"].integers().tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "medusa_lm_head.pt", "head.ckpt"])
def test_pickles_are_never_read(tmp_path: Path, name: str) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[()]]:
            return (Path(tmp_path / "ran").touch, ())

    import pickle

    (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    for source in (tmp_path, tmp_path / name):
        with pytest.raises(CheckpointUnusable, match="is a pickle, which can run any program"):
            convert(source, tmp_path / "out.gguf")
    assert not (tmp_path / "ran").exists()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnusable, match="There is no file or directory"):
        convert(tmp_path / "none")
    with pytest.raises(CheckpointUnusable, match=r"holds no \.safetensors file"):
        convert(tmp_path)
    (tmp_path / "a.gguf").touch()
    with pytest.raises(CheckpointUnusable, match="a GGUF file already"):
        convert(tmp_path / "a.gguf")


def header(**tensors: object) -> bytes:
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
DAMAGED = {
    "empty": b"",
    "short": b"\x01\x02",
    "length past the end": struct.pack("<Q", 1 << 40) + b"{}",
    "no JSON": struct.pack("<Q", 4) + b"nope",
    "no UTF-8": struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc",
    "a list": struct.pack("<Q", 2) + b"[]",
    "no entry": header(a=3),
    "negative": header(a={**ENTRY, "shape": [-2]}) + bytes(8),
    "text": header(a={**ENTRY, "data_offsets": ["0", "8"]}) + bytes(8),
    "backwards": header(a={**ENTRY, "data_offsets": [8, 0]}) + bytes(8),
    "too long": header(a={**ENTRY, "shape": [1 << 50, 1 << 50]}) + bytes(8),
    "past the end": header(a={**ENTRY, "data_offsets": [0, 1 << 40]}) + bytes(8),
    "nested": struct.pack("<Q", 100_000) + b"[" * 100_000,
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_a_sentence(tmp_path: Path, case: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(DAMAGED[case])
    with pytest.raises(CheckpointUnusable, match="Download the checkpoint again"):
        convert(tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"), [("{", "is no JSON"), ("[]", "holds no settings"), ("\ud8f0", "is no JSON")]
)
def test_a_damaged_config_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    source = medusa().write(tmp_path / "heads")
    (source / "config.json").write_bytes(text.encode("utf-8", errors="surrogatepass"))
    with pytest.raises(CheckpointUnusable, match=sentence):
        convert(source, tmp_path / "heads.gguf")


def test_quantised_and_broken_weights_are_refused(tmp_path: Path) -> None:
    published = medusa()
    published.tensors["2.1.weight"][7, 3] = np.nan
    with pytest.raises(CheckpointUnusable, match=r"2\.1\.weight in .* holds values that are no numbers"):
        convert(published.write(tmp_path / "nan"), tmp_path / "heads.gguf")
    published.tensors["2.1.weight"] = np.zeros((286, 32), dtype=np.uint8)
    with pytest.raises(CheckpointUnusable, match="type F8_E4M3"):
        convert(published.write(tmp_path / "f8"), tmp_path / "heads.gguf")
    published = medusa()
    published.tensors["1.1.weight"][0, 0] = 1e6
    source = published.write(tmp_path / "large")
    with pytest.raises(CheckpointUnusable, match=r"too large for F16\. Use --type f32"):
        convert(source, tmp_path / "heads.gguf", weight_type=WeightType.F16)
    assert not (tmp_path / "heads.gguf").exists()
    convert(source, tmp_path / "heads.gguf", weight_type=WeightType.F32)


def test_a_checkpoint_may_lie_in_several_files_but_holds_nothing_twice(tmp_path: Path) -> None:
    published = medusa()
    published.file = "model.safetensors"
    whole = convert(published.write(tmp_path / "whole"), tmp_path / "whole.gguf").path.read_bytes()
    names = list(published.tensors)
    parts = tmp_path / "whole" / "parts" / "whole"
    parts.mkdir(parents=True)
    for n, part in enumerate((names[:4], names[4:])):
        write_safetensors(parts / f"model-{n}.safetensors", {name: published.tensors[name] for name in part}, "BF16")
    assert convert(parts, tmp_path / "parts.gguf").path.read_bytes() == whole
    write_safetensors(parts / "model-2.safetensors", {names[0]: published.tensors[names[0]]}, "BF16")
    with pytest.raises(CheckpointUnusable, match=r"holds 0\.0\.linear\.weight twice"):
        convert(parts, tmp_path / "parts.gguf")


def test_the_kind_that_is_named_must_be_the_one_that_is_there(tmp_path: Path, tiny: Path) -> None:
    source = medusa().write(tmp_path / "heads")
    assert convert(source, tmp_path / "heads.gguf", kind=CheckpointKind.MEDUSA).kind is CheckpointKind.MEDUSA
    with pytest.raises(CheckpointUnusable, match="holds a head of kind medusa, not eagle3"):
        convert(source, tmp_path / "other.gguf", kind=CheckpointKind.EAGLE3)
    with pytest.raises(ModelUnusable, match="it does not begin with the letters GGUF"):
        convert(source, tmp_path / "other.gguf", target=source / "medusa_lm_head.safetensors")


def test_a_file_that_is_there_is_replaced_only_on_request(tmp_path: Path) -> None:
    source, path = medusa().write(tmp_path / "heads"), tmp_path / "heads.gguf"
    path.write_text("precious")
    with pytest.raises(CheckpointUnusable, match=r"is there already\. Use --force"):
        convert(source, path)
    assert path.read_text() == "precious"
    convert(source, path, replace=True)
    assert read_header(path).architecture == "medusa"


@pytest.mark.parametrize("after", [0, 1, 4])
def test_stopped_in_the_middle_nothing_is_left(tmp_path: Path, after: int) -> None:
    source = medusa().write(tmp_path / "heads")
    (tmp_path / "out").mkdir()
    asked = iter(range(100))
    with pytest.raises(ConversionStopped):
        convert(source, tmp_path / "out" / "heads.gguf", cancelled=lambda: next(asked) >= after)
    assert list((tmp_path / "out").iterdir()) == []


def test_progress_ends_with_all(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    convert(
        medusa().write(tmp_path / "heads"), tmp_path / "heads.gguf",
        progress=lambda done, total: heard.append((done, total)),
    )  # fmt: skip
    assert [done for done, _ in heard] == sorted({done for done, _ in heard})
    assert heard[-1][0] == heard[-1][1]
