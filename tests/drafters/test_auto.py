"""`auto` drafts where it pays, stops where it doesn't, starts a draft model only for answers that repay it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from specchat.drafters.auto import AutoDrafter
from specchat.drafters.costs import Costs, PlainRate, costs_directory
from specchat.drafters.method import Method
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.step import Draft, Step

SAMPLER = Sampler(SamplingParams(temperature=0), acceptance_rule(AcceptanceMode.EXACT, seed=1))


@pytest.fixture(autouse=True)
def _fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


class Copier:
    """Offers the same token again and again; a free drafter."""

    method = Method.SUFFIX

    def __init__(self) -> None:
        self.asked = 0
        self.ids: list[int] = []

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        self.ids = list(ids)

    def propose(self, limit: int) -> Draft:
        self.asked += 1
        return Draft([7] * min(limit, 15), match=8)

    def commit(self, step: Step) -> None:
        self.ids.extend(step.tokens)

    def close(self) -> None:
        pass


class Model(Copier):
    """A drafter that has to read all ids before it drafts."""

    method = Method.DRAFT

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        super().begin(ids, sampler)
        self.begun += 1

    def missing(self, ids: Sequence[int]) -> int:
        return len(ids) - 1

    def propose(self, limit: int) -> Draft:
        self.asked += 1
        return Draft([7] * limit)


def drive(
    auto: AutoDrafter,
    steps: int,
    *,
    accepts: bool,
    seconds: Callable[[int], float],
    prompt: Sequence[int] = (1, 2, 3),
    remaining: int | None = None,
) -> list[int]:
    """Play the loop: every draft is wholly accepted or rejected at once; the depths drafted."""
    ids = list(prompt)
    auto.expect(remaining)
    auto.begin(ids, SAMPLER)
    depths = []
    for _ in range(steps):
        draft = auto.propose(63)
        kept = len(draft) if accepts else 0
        tokens = (*draft.ids[:kept], 5)
        step = Step(tokens, kept, min(len(draft), kept + 1) if draft else 0, len(draft))
        auto.commit(step)
        auto.record(draft, step, 1e-5 * len(draft), seconds(len(draft) + 1))
        ids.extend(tokens)
        depths.append(len(draft))
    return depths


def auto_of(free: dict[str, Copier] | None = None, models: dict[str, Model] | None = None) -> AutoDrafter:
    free, models = free or {}, models or {}
    return AutoDrafter(Costs(["test"], [*free], [*models], 63), {**free}, {**models})


def test_offers_that_are_always_right_are_taken_and_long() -> None:
    depths = drive(auto_of({"suffix": Copier()}), 120, accepts=True, seconds=lambda rows: 0.02 + 0.0005 * rows)
    assert sum(depths[-60:]) / 60 > 8


def test_offers_that_are_always_wrong_are_not_verified() -> None:
    copier = Copier()
    depths = drive(auto_of({"suffix": copier}), 400, accepts=False, seconds=lambda rows: 0.02 * rows)
    assert sum(depth > 0 for depth in depths[-300:]) <= 6
    # Nor is it asked at every step for what nobody takes.
    assert copier.asked < 200
    # What it has not read yet it reads when it is next asked.
    assert len(copier.ids) > 380


def test_a_tree_is_not_made_larger_for_what_it_never_brings() -> None:
    """Its paths end after two tokens, both right: that more levels were never tested says nothing for them."""

    class Bush(Model):
        def propose(self, limit: int) -> Draft:
            return Draft([7, 7, *range(10, 8 + limit)][:limit], parents=[-1, 0, *[-1] * limit][:limit])

    auto = auto_of(models={"eagle": Bush()})
    auto.expect(None)
    auto.begin([1, 2, 3], SAMPLER)
    sizes = []
    for _ in range(200):
        draft = auto.propose(63)
        right = min(2, len(draft))
        step = Step((*[7] * right, 5), right, right, len(draft), tuple(range(right)) if draft else None)
        auto.commit(step)
        auto.record(draft, step, 1e-5 * len(draft), 0.02 + 0.001 * len(draft))
        sizes.append(len(draft))
    assert 2 <= sum(sizes[-50:]) / 50 <= 4


def test_a_draft_model_is_not_started_for_a_short_answer() -> None:
    model = Model()
    auto = auto_of(models={"draft": model})
    drive(auto, 14, accepts=True, seconds=lambda _rows: 0.02, prompt=[1] * 1000, remaining=16)
    assert model.begun == 0


def test_a_draft_model_is_started_for_a_long_answer_and_used_where_it_pays() -> None:
    model = Model()
    depths = drive(auto_of(models={"draft": model}), 150, accepts=True, seconds=lambda rows: 0.02 + 0.001 * rows)
    assert model.begun == 1
    assert sum(depth > 0 for depth in depths[-50:]) >= 48
    assert model.ids[-1] == 5


class Slow(Model):
    """One whose start takes a while."""

    def begin(self, ids: Sequence[int], sampler: Sampler) -> None:
        super().begin(ids, sampler)
        time.sleep(0.02)


def test_a_draft_model_that_did_not_pay_is_tried_again_when_its_start_costs_little_of_the_time_since() -> None:
    """Starting it took 0.02 s for 18 tokens: about 0.07 s for 66, a hundredth of what 370 plain steps take."""
    useless = Slow()
    drive(auto := auto_of(models={"draft": useless}), 200, accepts=False, seconds=lambda rows: 0.02 * rows)
    assert useless.begun == 1
    asked = useless.asked
    for _ in range(2):
        drive(auto, 100, accepts=False, seconds=lambda rows: 0.02 * rows)
    assert useless.begun == 1
    for _ in range(6):
        drive(auto, 100, accepts=False, seconds=lambda rows: 0.02 * rows)
    assert 2 <= useless.begun <= 3
    # Starting it without asking it for a draft would be for nothing.
    assert useless.asked > asked


def test_the_arm_is_named_in_every_draft() -> None:
    auto = auto_of({"suffix": Copier()})
    auto.begin([1, 2, 3], SAMPLER)
    sources = set()
    for _ in range(60):
        draft = auto.propose(63)
        step = Step((*draft.ids, 5), len(draft), len(draft), len(draft))
        auto.commit(step)
        auto.record(draft, step, 1e-5, 0.02)
        sources.add((draft.source, len(draft) > 0))
    assert sources == {("", False), ("suffix", True)}
    assert sum(auto.why.values()) == 60


def test_what_was_measured_is_there_at_the_next_start() -> None:
    first = auto_of({"suffix": Copier()})
    drive(first, 100, accepts=True, seconds=lambda rows: 0.02 + 0.0005 * rows)
    first.close()
    again, elsewhere = Costs(["test"], ["suffix"], [], 63), Costs(["other machine"], ["suffix"], [], 63)
    again.open()
    elsewhere.open()
    assert again.arms.target.estimate_s(1) == pytest.approx(0.0205, rel=0.05)
    assert elsewhere.arms.target.estimate(1) is None


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"arms": {}, "start_s_per_token": 3.0, "declined_s": 0.0}', b"\xff\xfe"]
)
def test_damaged_costs_are_measured_again(damage: bytes) -> None:
    first = auto_of({"suffix": Copier()})
    drive(first, 40, accepts=True, seconds=lambda _rows: 0.02)
    first.close()
    for path in costs_directory().iterdir():
        path.write_bytes(damage)
    again = auto_of({"suffix": Copier()})
    assert drive(again, 40, accepts=True, seconds=lambda _rows: 0.02)
    again.close()
    assert all(json.loads(path.read_text()) for path in costs_directory().iterdir())


def test_the_plain_rate_is_measured_kept_and_not_asked_for_twice_of_a_fixed_choice() -> None:
    rate = PlainRate(["key"], sparing=True)
    rate.begin_turn()
    plain = 0
    for step in range(20):
        wanted = rate.wants_plain_step(100 + step)
        plain += wanted
        rate.record(0 if wanted else 3, 0.02, 100 + step)
    assert 2 <= plain <= 4
    assert rate.baseline.tok_s(110) == pytest.approx(50)
    rate.keep()
    again = PlainRate(["key"], sparing=True)
    again.begin_turn()
    assert not again.wants_plain_step(110)
    assert again.baseline.tok_s(110) == pytest.approx(50)
    every_turn = PlainRate(["key"], sparing=False)
    every_turn.begin_turn()
    for step in range(8):
        assert not every_turn.wants_plain_step(110 + step)
        every_turn.record(3, 0.02, 110 + step)
    assert every_turn.wants_plain_step(118)


def test_nothing_is_read_before_the_first_token(tmp_path: Path) -> None:
    rate = PlainRate(["key"], sparing=False)
    assert rate.baseline.tok_s(0) is None
    rate.keep()
    assert not costs_directory().exists()
