"""What heads that draft a block, or one token a layer, take: to the byte as loaded, and from headers within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specchat.catalogue.head_kind import HeadKind
from specchat.drafters.method import Method
from specchat.engine.settings import EngineSettings
from specchat.fit.demand import Demand
from specchat.fit.exact import ExactMeasure
from specchat.fit.formula import demand_of_shapes
from specchat.fit.heads import head_of
from specchat.fit.pairs import Pair, shape_here
from tests.chained_models import write_chained_model
from tests.dflash_models import write_dflash_head
from tests.fit import synthetic
from tests.fit.synthetic_head import dflash
from tests.fit.test_heads import REQUESTS, asked, compare, really_held, told
from tests.tiny_model import write_model

OF_AN_8B: dict[str, Any] = {
    "width": 4096, "layers": 5, "taps": 5, "heads": 32, "head": 128, "inner": 12288, "vocabulary": 151_936,
    "own_embedding": True,
}  # fmt: skip
HEADS: dict[str, dict[str, Any]] = {
    "the target's matrices": {},
    "a reduced vocabulary": {"draft_vocabulary": 2048, "own_embedding": True},
    "one layer": {"layers": 1},
    "wide": {"inner": 16384},
    "of an 8B": OF_AN_8B,
    "of an 8B, reduced": {**OF_AN_8B, "draft_vocabulary": 32_000},
}


@pytest.fixture(scope="module")
def probe() -> Iterator[ExactMeasure]:
    with ExactMeasure() as exact:
        if exact.devices().offloads:
            pytest.skip("the bounds were measured on a CPU build")
        yield exact


@pytest.mark.parametrize("kind", [{}, {"window": 12}, {"layers": (0, 1, 2, 1), "draft_vocab": 64}])
def test_a_dflash_head_and_its_tapped_layers_take_what_a_real_load_takes(
    probe: ExactMeasure, tmp_path: Path, kind: dict[str, Any]
) -> None:
    target = write_model(tmp_path / "target.gguf", layers=4)
    head = write_dflash_head(tmp_path / "head.gguf", target, **{"layers": (0, 1, 2), **kind})
    real = really_held(target, head, 512)
    demand = probe.measure(target, head, asked(512), HeadKind.DFLASH)
    ours, theirs = told(demand)
    # Layers that are named twice are kept once.
    tapped = 3 * 32 * 512 * 4
    assert replace(ours, compute=ours.compute + tapped) == real["target"]
    assert theirs == real["head"]
    assert demand.target.host.rows == 2 * tapped


@pytest.mark.parametrize("name", HEADS)
def test_from_a_header_a_dflash_head_is_told_to_the_byte_but_for_its_buffers(
    probe: ExactMeasure, tmp_path: Path, name: str
) -> None:
    target, head = synthetic.dense(tmp_path / "target.gguf"), dflash(tmp_path / "head.gguf", **HEADS[name])
    for request in REQUESTS.values():
        exact = probe.measure(target, head, request, HeadKind.DFLASH)
        compare(exact, demand_of_shapes(shape_here(target), shape_here(head), request, HeadKind.DFLASH))


def test_layers_that_take_turns_take_what_a_real_load_takes(probe: ExactMeasure, tmp_path: Path) -> None:
    path = write_chained_model(tmp_path / "chained.gguf")
    real = really_held(path, None, 512)
    demand = probe.measure(path, None, asked(512), HeadKind.MTP)
    ours, theirs = told(demand)
    assert ours.weights + theirs.weights == real["target"].weights == real["head"].weights
    assert replace(ours, weights=0) == replace(real["target"], weights=0)
    assert replace(theirs, weights=0) == replace(real["head"], weights=0)
    estimated = demand_of_shapes(shape_here(path), None, asked(512), HeadKind.MTP)
    assert cache_of(estimated) == cache_of(demand)


def cache_of(demand: Demand) -> int:
    assert demand.draft is not None
    return demand.draft.host.cache


def test_which_head_drafts_is_told_by_the_files(tmp_path: Path) -> None:
    target, chained = write_model(tmp_path / "target.gguf"), write_chained_model(tmp_path / "chained.gguf")
    head = write_dflash_head(tmp_path / "head.gguf", target)
    settings = EngineSettings(target, method=Method.AUTO)
    for pair, kind in (
        (Pair("x", target, head), HeadKind.DFLASH),
        (Pair("x", target, shape_here(head)), HeadKind.DFLASH),
        (Pair("x", chained, None), HeadKind.MTP),
    ):
        assert head_of(pair, settings) is kind
