"""Costs of passes: measured points, one speed for all of them, growth with the context, a cache that counts little."""

from __future__ import annotations

import json
import random

import pytest

from specchat.speculation.cost import CostCurve, MachineSpeed

STEPPED = {1: 0.137, 2: 0.228, 3: 0.296, 4: 0.210, 5: 0.306, 8: 0.392}
"""Seconds by rows, as measured (lab notes): four rows cost less than three."""


def measured(noise: float = 0.05, times: int = 8, seed: int = 1) -> CostCurve:
    rng, curve = random.Random(seed), CostCurve()
    for _ in range(times):
        for n, seconds in STEPPED.items():
            curve.record(n, seconds * rng.lognormvariate(0, noise))
    return curve


def seconds(curve: CostCurve, n: int) -> float:
    cost = curve.estimate(n)
    assert cost is not None
    return cost.seconds


def test_steps_stay_steps() -> None:
    curve = measured()
    for n, true in STEPPED.items():
        assert seconds(curve, n) == pytest.approx(true, rel=0.08)
    assert seconds(curve, 4) < 0.8 * seconds(curve, 3)


def test_nothing_is_claimed_outside_of_what_was_measured() -> None:
    curve = measured()
    assert curve.estimate(9) is None
    assert CostCurve().estimate(1) is None


def test_a_size_between_two_others_comes_with_the_error_it_has() -> None:
    curve = CostCurve()
    for n in (2, 4, 8):
        for _ in range(8):
            curve.record(n, STEPPED[n])
    for n in (3, 5):
        cost = curve.estimate(n)
        assert cost is not None
        assert cost.error >= 0.1
        assert abs(cost.seconds - STEPPED[n]) <= cost.seconds * max(cost.error, 0.36)
    known = curve.estimate(4)
    assert known is not None
    assert known.error < 0.05


def test_passes_ten_times_late_move_nothing() -> None:
    rng, curve = random.Random(2), measured()
    for _ in range(60):
        n = rng.choice(list(STEPPED))
        curve.record(n, STEPPED[n] * (10 if rng.random() < 0.15 else 1))
        assert seconds(curve, 4) == pytest.approx(STEPPED[4], rel=0.15)


@pytest.mark.parametrize("seen", [1, 4])
def test_a_slower_machine_is_followed_by_all_points_at_once(seen: int) -> None:
    rng, curve = random.Random(3), measured()
    for _ in range(16):
        curve.record(seen, 3 * STEPPED[seen] * rng.lognormvariate(0, 0.05))
    for n, true in STEPPED.items():
        assert seconds(curve, n) == pytest.approx(3 * true, rel=0.12)


def test_a_drafter_follows_the_machine_while_only_the_target_is_measured() -> None:
    speed = MachineSpeed()
    target, drafter = CostCurve(speed), CostCurve(speed, leads=False)
    for _ in range(9):
        target.record(1, 0.1)
        drafter.record(3, 0.02)
    for _ in range(9):
        target.record(1, 0.3)
    assert seconds(drafter, 3) == pytest.approx(0.06, rel=0.01)


def test_a_point_measured_alone_for_long_keeps_its_place_among_the_others() -> None:
    rng, curve = random.Random(4), measured(noise=0.02)
    for _ in range(3000):
        curve.record(4, STEPPED[4] * rng.lognormvariate(0, 0.2))
    assert seconds(curve, 4) / seconds(curve, 1) == pytest.approx(STEPPED[4] / STEPPED[1], rel=0.05)


def test_a_kernel_that_changes_is_learnt_against_the_other_points() -> None:
    rng, curve = random.Random(5), measured()
    for _ in range(160):
        n = rng.choice([1, 2, 4])
        curve.record(n, STEPPED[n] * (1.5 if n == 4 else 1) * rng.lognormvariate(0, 0.05))
    assert seconds(curve, 4) == pytest.approx(1.5 * STEPPED[4], rel=0.08)
    assert seconds(curve, 1) == pytest.approx(STEPPED[1], rel=0.08)


def test_the_first_pass_at_a_new_size_is_judged_apart() -> None:
    curve = measured(noise=0.01)
    for _ in range(5):
        curve.record(4, STEPPED[4] + 0.08, switched=True)
        curve.record(4, STEPPED[4])
    assert seconds(curve, 4) == pytest.approx(STEPPED[4], rel=0.03)
    assert curve.switch_s == pytest.approx(0.08, rel=0.1)


def test_first_passes_are_better_than_nothing() -> None:
    curve = measured(noise=0.01)
    for _ in range(5):
        curve.record(4, STEPPED[4] + 0.08, switched=True)
    curve.record(16, 0.557 + 0.08, switched=True)
    cost = curve.estimate(16)
    assert cost is not None
    assert cost.seconds == pytest.approx(0.557, rel=0.05)
    assert cost.error >= 0.3
    assert curve.passes(16) == 1
    assert curve.passes(16, steady=True) == 0


def test_a_slower_machine_is_followed_also_where_sizes_alternate() -> None:
    curve = measured(noise=0.01)
    for step in range(40):
        n = (1, 4)[step % 2]
        curve.record(n, (3 if step >= 16 else 1) * STEPPED[n], switched=True)
    assert seconds(curve, 8) == pytest.approx(3 * STEPPED[8], rel=0.1)


def test_growth_with_the_context_is_learnt_over_an_answer() -> None:
    rng, curve = random.Random(6), CostCurve()
    for context in range(100, 2000):
        n = rng.choice([1, 4])
        curve.record(n, STEPPED[n] * (1 + context / 2000) * rng.lognormvariate(0, 0.05), context)
    # A new conversation: the costs are right before its first pass has been measured often.
    curve.record(1, STEPPED[1] * 1.05, 100)
    assert seconds(curve, 4) == pytest.approx(STEPPED[4] * 1.05, rel=0.2)


def test_a_cache_is_a_first_guess_that_fresh_passes_overrule() -> None:
    data = json.loads(json.dumps(measured().to_dict()))
    curve = CostCurve.from_dict(data)
    assert seconds(curve, 8) == pytest.approx(STEPPED[8], rel=0.08)
    curve.record(1, 2 * STEPPED[1])
    assert seconds(curve, 8) == pytest.approx(2 * STEPPED[8], rel=0.1)
    for _ in range(9):
        curve.record(1, 2 * STEPPED[1])
    for _ in range(4):
        curve.record(8, 6 * STEPPED[8])
    assert seconds(curve, 8) == pytest.approx(6 * STEPPED[8], rel=0.1)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"version": 99},
        {"version": 1, "seconds": {"1": -1.0}, "growth": 0, "switch_s": 0},
        {"version": 1, "seconds": [], "growth": 0, "switch_s": 0},
        {"version": 1, "seconds": {"1": "x"}, "growth": 0, "switch_s": 0},
    ],
)
def test_a_damaged_cache_is_refused_in_a_sentence(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="measure anew"):
        CostCurve.from_dict(data)


@pytest.mark.parametrize(("n", "time"), [(0, 1.0), (1, 0.0), (1, float("inf")), (1, float("nan"))])
def test_a_time_that_cannot_be_is_refused(n: int, time: float) -> None:
    with pytest.raises(ValueError, match="positive time"):
        CostCurve().record(n, time)
