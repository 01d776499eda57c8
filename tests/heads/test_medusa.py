"""A Medusa checkpoint becomes one GGUF whose heads say what the checkpoint says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from specchat.heads.convert import convert
from specchat.heads.errors import CheckpointUnusable
from specchat.heads.kinds import CheckpointKind, WeightType
from specchat.llama.errors import ModelUnusable
from specchat.llama.head import OutputEnd
from specchat.llama.medusa import MedusaHeads, MedusaUnusable
from tests.heads.checkpoints import Published, medusa, medusa_logits
from tests.tiny_model import WIDTH, write_model

TOKENS = 286


def state(seed: int = 3, width: int = WIDTH) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1, width).astype(np.float32)


def said(path: Path, *seeds: int) -> list[list[NDArray[np.float32]]]:
    """The logits of each head after each state."""
    with MedusaHeads(path, threads=1) as heads:
        found = []
        for seed in seeds:
            heads.see(state(seed, heads.width))
            found.append([heads.logits(head).copy() for head in range(heads.n_heads)])
        return found


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_heads_say_what_the_checkpoint_says(tiny: Path, tmp_path: Path, kind: str, blocks: int) -> None:
    published = medusa(blocks=blocks)
    published.kind = kind
    written = convert(
        published.write(tmp_path / "heads"), tmp_path / "heads.gguf", target=tiny, weight_type=WeightType.F32
    )
    assert (written.kind, written.draft_tokens) == (CheckpointKind.MEDUSA, None)
    for seed, found in zip((3, 4), said(written.path, 3, 4), strict=True):
        for head in range(3):
            np.testing.assert_allclose(found[head], medusa_logits(published, head, state(seed)), atol=1e-4)


@pytest.mark.parametrize(("weight_type", "tolerance"), [(WeightType.F16, 0.02), (WeightType.Q8_0, 0.2)])
def test_in_fewer_bits_they_say_nearly_the_same(tmp_path: Path, weight_type: WeightType, tolerance: float) -> None:
    published = medusa(width=256)
    written = convert(published.write(tmp_path / "heads"), tmp_path / "heads.gguf", weight_type=weight_type)
    (found,) = said(written.path, 3)
    for head in range(3):
        np.testing.assert_allclose(found[head], medusa_logits(published, head, state(3, 256)), atol=tolerance)


def test_of_a_cut_vocabulary_the_lowest_tokens_stay_and_the_ends(tiny: Path, tmp_path: Path) -> None:
    published = medusa()
    written = convert(
        published.write(tmp_path / "heads"), tmp_path / "some.gguf", target=tiny, weight_type=WeightType.F32,
        draft_tokens=2,
    )  # fmt: skip
    assert written.draft_tokens == 3
    with MedusaHeads(written.path, threads=1) as heads:
        assert heads.token_ids is not None
        assert heads.token_ids.tolist() == [0, 1, 2]
        heads.see(state())
        np.testing.assert_allclose(heads.logits(1), medusa_logits(published, 1, state())[:3], atol=1e-4)


def test_of_a_large_vocabulary_a_part_is_drafted_unless_all_is_asked_for(tmp_path: Path) -> None:
    source = medusa(tokens=70_000, heads=1).write(tmp_path / "heads")
    assert convert(source, tmp_path / "some.gguf").draft_tokens == 32_768
    assert convert(source, tmp_path / "all.gguf", draft_tokens=70_000).draft_tokens is None


def test_heads_without_output_matrices_share_their_targets(tiny: Path, tmp_path: Path) -> None:
    published = medusa(own_output=False)
    source = published.write(tmp_path / "heads")
    with pytest.raises(CheckpointUnusable, match=r"shares its target's\. Name it with --target"):
        convert(source, tmp_path / "heads.gguf")
    end = OutputEnd(tiny)
    weights = end.weights(np.arange(end.n_tokens))
    for head in range(3):
        published.tensors[f"{head}.1.weight"] = weights
    published.kind = "F32"
    source = published.write(tmp_path / "same")
    for head in range(3):
        del published.tensors[f"{head}.1.weight"]
    shared = convert(published.write(tmp_path / "none"), tmp_path / "s.gguf", target=tiny, weight_type=WeightType.F32)
    own = convert(source, tmp_path / "o.gguf", target=tiny, weight_type=WeightType.F32)
    assert shared.size < 0.5 * own.size
    np.testing.assert_array_equal(said(shared.path, 3), said(own.path, 3))


def test_names_may_stand_behind_those_of_a_whole_model(tmp_path: Path) -> None:
    published = medusa()
    plain = convert(published.write(tmp_path / "plain"), tmp_path / "plain.gguf")
    published.tensors = {f"medusa_head.{name}": tensor for name, tensor in published.tensors.items()}
    behind = convert(published.write(tmp_path / "behind"), tmp_path / "behind.gguf")
    np.testing.assert_array_equal(said(behind.path, 3), said(plain.path, 3))


def lacking(name: str) -> Callable[[Published], None]:
    return lambda published: published.tensors.__delitem__(name)


def shaped(name: str, *shape: int) -> Callable[[Published], None]:
    return lambda published: published.tensors.__setitem__(name, np.zeros(shape, dtype=np.float32))


REFUSED: dict[str, tuple[Callable[[Published], None], str]] = {
    "no bias": (lacking("1.0.linear.bias"), "lacks the tensor 1.0.linear.bias"),
    "no block": (lacking("1.0.linear.weight"), "lacks the tensor 1.0.linear.weight"),
    "no output": (lacking("1.1.weight"), "lacks the tensor 1.1.weight"),
    "width": (shaped("0.0.linear.weight", 64, 64), "is 64 × 64; for tiny it must be 32 × 32"),
    "width of a bias": (shaped("0.0.linear.bias", 31), "is 31; for tiny it must be 32"),
    "width of an output": (shaped("2.1.weight", 286, 64), "is 286 × 64; for tiny it must be 286 × 32"),
    "few rows": (shaped("0.1.weight", 285, 32), "is 285 × 32; for tiny it must be 286 × 32"),
    "another tensor": (shaped("sequential_head.weight", 2, 2), "which is of no Medusa head known here"),
    "promises": (
        lambda published: published.config.update(medusa_num_heads=5),
        "promises 5 heads and its files hold 3",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_converted_is_refused_with_a_sentence_and_nothing_is_written(
    tiny: Path, tmp_path: Path, case: str
) -> None:
    change, sentence = REFUSED[case]
    published = medusa()
    change(published)
    source = published.write(tmp_path / "heads")
    (tmp_path / "out").mkdir()
    with pytest.raises(CheckpointUnusable) as refused:
        convert(source, tmp_path / "out" / "heads.gguf", target=tiny)
    assert sentence in str(refused.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_file_of_another_kind_is_no_heads(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(MedusaUnusable, match=r"tiny\.gguf holds no Medusa heads but llama"):
        MedusaHeads(tiny, threads=1)
    with pytest.raises(ModelUnusable, match="There is no file"):
        MedusaHeads(tmp_path / "none.gguf", threads=1)


def shape(*sizes: int, kind: int = 8) -> bytes:
    """A tensor's number of dimensions, its sizes and its type, as they stand behind its name."""
    return struct.pack("<I", len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes) + struct.pack("<I", kind)


def test_a_damaged_file_is_a_sentence_not_an_abort(tmp_path: Path) -> None:
    path = convert(medusa().write(tmp_path / "heads"), tmp_path / "heads.gguf").path
    whole = path.read_bytes()
    for old, new in (
        (b"head.1.output.weight", b"head.1.output.wrongs"),
        (b"medusa.head_count", b"medusa.head_coumt"),
        # The shape of a matrix, and its type: 64-bit numbers.
        (b"head.0.output.weight" + shape(32, 286), b"head.0.output.weight" + shape(32, 143)),
        (b"head.2.block.0.weight" + shape(32, 32), b"head.2.block.0.weight" + shape(32, 32)[:-4] + b"\x1b\0\0\0"),
        (b"head.2.block.0.bias" + shape(32, kind=0), b"head.2.block.0.bias" + shape(16, kind=0)),
    ):
        assert whole.count(old) == 1
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(MedusaUnusable, match="Convert them again"):
            MedusaHeads(path, threads=1)
    path.write_bytes(whole[:-64])
    with pytest.raises(ModelUnusable, match="incomplete"):
        MedusaHeads(path, threads=1)


def test_a_target_with_another_end_can_not_share_it(tmp_path: Path) -> None:
    target = write_model(tmp_path / "capped.gguf", extra={"rope.dimension_count": 16, "logit_scale": 2})
    source = medusa(own_output=False).write(tmp_path / "heads")
    with pytest.raises(CheckpointUnusable, match="does more than a norm and a matrix at its end"):
        convert(source, tmp_path / "heads.gguf", target=target)
