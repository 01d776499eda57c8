"""The search finds the layers that a target doesn't need, and leaves nothing behind but its result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import gguf
import numpy as np
import pytest

from specchat.calibration.agreement import (
    CalibrationCancelled,
    Matches,
    Passage,
    greedy_passages,
    matches,
    predict,
    rates_by_position,
    reading_context,
)
from specchat.calibration.candidates import CandidateBench, LayerSet, Yardstick
from specchat.calibration.layer_skip import LayerSetSearch, search_layer_set
from specchat.drafters.layer_skip import (
    LayerSkipCalibration,
    cut_draft,
    default_layer_set,
    draft_directory,
    keep_calibration,
    stored_calibration,
    stored_layer_set,
)
from specchat.llama.context import Context
from specchat.llama.errors import LlamaError
from specchat.llama.model import Model
from tests.tiny_model import write_model, write_recurrent_model

PROMPTS = [[1, 40 + 7 * i, 90 + i, 260 + i] for i in range(4)]
FOUND = LayerSkipCalibration((2, 3), 6, alpha=0.7, cost_ratio=0.4, depth=2, speedup=1.2, tokens=100)


def plant(path: Path, layers: int, needless: tuple[int, ...]) -> Path:
    """A random model in which the layers `needless` pass on what they get."""
    write_model(path, layers=layers, seed=len(needless))
    reader = gguf.GGUFReader(path, "r+")
    for tensor in reader.tensors:
        if any(tensor.name.startswith((f"blk.{i}.attn_output", f"blk.{i}.ffn_down")) for i in needless):
            tensor.data[:] = 0
    reader.data.flush()
    return path


@pytest.mark.parametrize(("layers", "needless"), [(8, (3,)), (10, (2, 5, 6)), (16, (1, *range(3, 14)))])
def test_exactly_the_layers_that_do_nothing_are_found(tmp_path: Path, layers: int, needless: tuple[int, ...]) -> None:
    target = plant(tmp_path / "planted.gguf", layers, needless)
    found = search_layer_set(target, PROMPTS, answer_tokens=24, budget_s=20, threads=1)
    assert found.layers == needless
    assert found.alpha == 1
    assert found.cost_ratio < 1
    assert stored_calibration(target) == found
    assert stored_layer_set(target) == needless


class Landscape(CandidateBench):
    """A target of 60 layers whose drafts agree as often as `alpha` says; no model is cut."""

    def __init__(self, alpha: Callable[[LayerSet], float]) -> None:
        draws = np.random.default_rng(5).random((4, 100))
        passages = tuple(Passage((1,), (2,) * 100) for _ in draws)
        self.yardstick = Yardstick(60, passages, {n: 1.0 + n / 60 for n in range(1, 10)})
        self.planned, self.overhead_s, self.passage_s = 0, 0.0, 1e-9
        self.tried: dict[LayerSet, list[Matches]] = {}
        self._draws = draws
        self._alpha = alpha

    @property
    def measured(self) -> list[LayerSet]:
        return list(self.tried)

    def draft_s(self, drop: LayerSet) -> float:
        return 1 - len(drop) / 60

    def read(self, drop: LayerSet, count: int) -> list[Matches]:
        self.tried[drop] = [row < self._alpha(drop) for row in self._draws]
        return self.tried[drop][:count]


def searched(bench: Landscape, known: Sequence[LayerSet] = ()) -> LayerSet:
    return LayerSetSearch(bench, time.perf_counter() + 30).run(known).layers


def test_many_needless_layers_are_found_fast() -> None:
    needless = tuple(range(2, 58, 2))
    bench = Landscape(lambda drop: 0.8 ** len(set(drop) - set(needless)))
    assert searched(bench) == needless
    assert len(bench.tried) < 130


def test_layers_that_are_harmless_only_alone_are_not_dropped_together() -> None:
    bench = Landscape(lambda drop: 0.99 if len(drop) <= 20 else 0.3)
    assert len(searched(bench)) == 20


def test_a_set_known_already_is_only_beaten_by_a_better_one() -> None:
    """Greedy growth can't see a set whose parts are worthless; the catalogue's own set is tried all the same."""
    known = (7, 11, 13, 29, 41)

    def alpha(drop: LayerSet) -> float:
        return 1.0 if drop == known else 0.5 ** len(drop)

    assert searched(Landscape(alpha), [known]) == known
    assert searched(Landscape(alpha)) != known
    assert searched(Landscape(lambda drop: 0.2 if drop == known else 0.9), [known]) != known


@pytest.mark.parametrize("events", [1, 2, 3, 6])
def test_stopped_it_leaves_nothing_behind(tmp_path: Path, events: int) -> None:
    target = write_model(tmp_path / "stopped.gguf", layers=6, seed=17)
    before = set(draft_directory().glob("**/*"))
    heard: list[tuple[int, int, str]] = []

    def listen(done: int, total: int, phrase: str) -> None:
        heard.append((done, total, phrase))

    with pytest.raises(CalibrationCancelled):
        search_layer_set(
            target,
            PROMPTS,
            answer_tokens=16,
            threads=1,
            progress=listen,
            cancelled=lambda: len(heard) >= events,
        )
    assert len(heard) == events
    assert all(0 <= done <= total and phrase for done, total, phrase in heard)
    assert [done for done, _, _ in heard] == list(range(events))
    assert set(draft_directory().glob("**/*")) == before
    assert stored_layer_set(target) is None


def test_an_exception_leaves_nothing_behind(tmp_path: Path) -> None:
    def fail(done: int, _total: int, _phrase: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search_layer_set(write_model(tmp_path / "x.gguf", layers=6, seed=18), PROMPTS, threads=1, progress=fail)
    assert not list(draft_directory().glob(".search-*"))


def test_a_running_state_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LlamaError, match=r"can't be rolled back.*--method none"):
        search_layer_set(write_recurrent_model(tmp_path / "mamba.gguf", layers=4), PROMPTS, threads=1)


def test_a_model_without_a_middle_is_refused(tiny: Path) -> None:
    with pytest.raises(LlamaError, match="no middle layer"):
        search_layer_set(tiny, PROMPTS, threads=1)
    with pytest.raises(LlamaError, match="no middle layer"):
        default_layer_set(tiny)


def stored_file(target: Path) -> Path:
    keep_calibration(target, FOUND)
    (path,) = (draft_directory().parent / "calibration").glob("*-layer-skip.json")
    return path


@pytest.fixture
def six(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_model(tmp_path / "six.gguf", layers=6)


def test_a_result_is_kept_for_the_file_whatever_its_name(six: Path, tmp_path: Path) -> None:
    keep_calibration(six, FOUND)
    assert stored_calibration(six) == FOUND
    assert stored_layer_set(six.rename(tmp_path / "renamed.gguf")) == (2, 3)
    assert stored_layer_set(write_model(tmp_path / "other.gguf", layers=6, seed=9)) is None


@pytest.mark.parametrize(
    "damage",
    [
        {"layers": [2, 9]}, {"layers": []}, {"layers": "23"}, {"layers": [3, 2]}, {"layers": [True, 2]},
        {"n_layer": 7}, {"alpha": "high"}, {"speedup": None}, {"depth": 0}, {"surprise": 1},
    ],
)  # fmt: skip
def test_a_result_that_makes_no_sense_is_no_result(six: Path, damage: dict[str, object]) -> None:
    path = stored_file(six)
    path.write_text(json.dumps(json.loads(path.read_text()) | damage))
    assert stored_layer_set(six) is None


def test_a_damaged_result_is_no_result(six: Path) -> None:
    path = stored_file(six)
    whole = path.read_bytes()
    for damaged in (b"", whole[:30], b"[1, 2]", b"\xff\xfe", b"null", b"[" * 100_000):
        path.write_bytes(damaged)
        assert stored_layer_set(six) is None
    keep_calibration(six, FOUND)
    assert stored_layer_set(six) == (2, 3)


def test_without_a_calibration_a_fourth_of_the_middle_is_dropped(tmp_path: Path) -> None:
    for layers in (3, 4, 8, 30, 61):
        dropped = default_layer_set(write_model(tmp_path / f"{layers}.gguf", layers=layers))
        assert list(dropped) == sorted(set(dropped))
        assert dropped[0] > 0
        assert dropped[-1] < layers - 1
        assert len(dropped) <= max(1, layers / 4)


def test_a_draft_without_many_layers_has_a_name_that_fits(tmp_path: Path) -> None:
    target = write_model(tmp_path / "deep.gguf", layers=90)
    with Model(cut_draft(target, range(1, 89))) as draft:
        assert draft.n_layer == 2


def test_rates_are_those_of_drafts_that_got_so_far() -> None:
    found = np.array([1, 1, 0, 1, 1, 1], dtype=np.bool_)
    # Starts 0..5: the first token holds 5 of 6; of 4 such with a second token 3 hold; of those with a third, 1 of 2.
    assert rates_by_position([found], 3) == pytest.approx([5 / 6, 3 / 4, 1 / 2])
    assert rates_by_position([np.zeros(4, dtype=np.bool_)], 2) == [0, 0]
    assert rates_by_position([np.ones(2, dtype=np.bool_)], 3) == [1, 1, 0]


def test_the_best_depth_follows_the_measured_costs() -> None:
    flat = dict.fromkeys(range(1, 6), 10.0)
    assert predict([1.0] * 4, flat, 0.0).depth == 4
    assert predict([1.0] * 4, flat, 0.0).speedup == pytest.approx(5)
    assert predict([0.5, 0.5], flat, 2.0).speedup == pytest.approx(1.75 * 10 / 14)
    # Three rows cost twice as much as two: the second token isn't worth it.
    assert predict([0.8, 0.8], {1: 10.0, 2: 11.0, 3: 22.0}, 1.0).depth == 1


def test_a_target_agrees_with_its_own_answers_however_long(tiny: Path) -> None:
    with Model(tiny) as model, Context(model, reading_context(400, 1)) as context:
        for passage in greedy_passages(context, PROMPTS[:2], 150, lambda: False):
            assert len(passage.answer) == 150 or model.vocab.is_end_of_generation(passage.answer[-1])
            assert matches(context, passage).all()
            wrong = Passage(passage.prompt, (*passage.answer[:-1], (passage.answer[-1] + 1) % model.vocab.size))
            assert not matches(context, wrong)[-1]
            assert matches(context, wrong)[:-1].all()
