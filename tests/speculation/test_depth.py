"""Never slower: the depth controller on a simulated machine, against those who know the future."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from functools import cache

import pytest

from specchat.speculation.depth import DEPTHS, DepthController, nearest_depth
from specchat.speculation.rates import AcceptanceRates

from .simulation import (
    COSTS,
    PLAIN_S,
    SEEDS,
    TOKENS,
    Cost,
    Fixed,
    Regime,
    StraightLine,
    best_fixed_seconds,
    constant,
    fixed_seconds,
    flat,
    linear,
    non_monotone,
    oracle_seconds,
    ratios,
    regimes,
    simulate,
    stepped,
)

REGIMES = regimes()
CHANGE = 1000
AFTER = 300


@cache
def pays(regime: Regime) -> bool:
    return best_fixed_seconds(regime, TOKENS) < 0.97 * fixed_seconds(regime, 0, TOKENS)


@pytest.fixture(scope="module")
def shares() -> dict[str, tuple[float, ...]]:
    return {name: ratios(regime, DepthController) for name, regime in REGIMES.items()}


def test_as_fast_as_the_best_fixed_depth_in_hindsight(shares: dict[str, tuple[float, ...]]) -> None:
    of_best = [share[0] for share in shares.values()]
    assert math.fsum(of_best) / len(of_best) >= 0.95
    assert min(of_best) >= 0.87


def test_where_nothing_pays_plain_decoding_hardly_suffers(shares: dict[str, tuple[float, ...]]) -> None:
    useless = {name: share[1] for name, share in shares.items() if not pays(REGIMES[name])}
    assert len(useless) >= 5
    assert min(useless.values()) >= 0.98


def test_where_drafting_pays_it_is_never_slower_than_plain(shares: dict[str, tuple[float, ...]]) -> None:
    assert min(share[1] for name, share in shares.items() if pays(REGIMES[name])) >= 1.0


def test_a_changing_text_is_followed(shares: dict[str, tuple[float, ...]]) -> None:
    """The oracle switches at the very token; the best fixed depth never does."""
    changing = [share for name, share in shares.items() if "drifting" in name or "switching" in name]
    assert math.fsum(share[2] for share in changing) / len(changing) >= 0.93
    assert math.fsum(share[0] for share in changing) / len(changing) >= 1.0


def loss_after_change(cost: str, make: type[DepthController] | Fixed, seed: int) -> float:
    """Plain steps' worth lost to the oracle after α fell from 0.9 to 0.1."""
    regime = Regime(COSTS[cost], lambda token: 0.9 if token < CHANGE else 0.1)
    run = simulate(regime, make if isinstance(make, Fixed) else make(), CHANGE + AFTER, seed)
    return (run.between(CHANGE, CHANGE + AFTER) - oracle_seconds(regime, CHANGE + AFTER, CHANGE)) / PLAIN_S


@pytest.mark.parametrize("cost", COSTS)
def test_when_the_text_turns_no_more_than_32_steps_are_lost(cost: str) -> None:
    losses = [loss_after_change(cost, DepthController, seed) for seed in range(1, 6)]
    assert max(losses) <= 32
    assert loss_after_change(cost, Fixed(3), 1) > 32, "this test could not fail"


@pytest.mark.parametrize("name", ["linear, α 0.05", "linear, α 0.1, 3 × slower", "non-monotone, α 0.3"])
def test_a_fixed_depth_breaks_the_bound_where_nothing_pays(name: str) -> None:
    assert ratios(REGIMES[name], lambda: Fixed(3))[1] < 0.9


def test_a_straight_line_of_costs_breaks_the_bound_on_a_machine_with_steps() -> None:
    regime = Regime(non_monotone, constant(0.8))
    assert ratios(regime, lambda: StraightLine(regime))[0] < 0.75
    assert ratios(regime, DepthController)[0] >= 0.9


def test_depths_switch_rarely() -> None:
    """Each switch rebuilds the graph."""
    for cost in COSTS.values():
        run = simulate(Regime(cost, constant(0.7)), DepthController(), 3000, 1)
        assert run.switches <= 0.1 * sum(run.depths.values())
        assert set(run.depths) <= set(DEPTHS)


def test_a_dear_rebuild_at_every_new_size_does_not_hide_that_drafting_pays() -> None:
    regime = Regime(non_monotone, constant(0.8), rebuild_s=0.5 * PLAIN_S)
    for seed in SEEDS:
        run = simulate(regime, DepthController(), 3000, seed)
        assert max(run.depths, key=run.depths.__getitem__) == 3


def test_drafting_comes_back_when_the_text_becomes_predictable() -> None:
    regime = Regime(stepped, lambda token: 0.1 if token < 600 else 0.9, draft_token_s=0.05 * PLAIN_S)
    for seed in SEEDS:
        run = simulate(regime, DepthController(), 1600, seed)
        assert run.between(1100, 1600) < 0.75 * 500 * PLAIN_S


def test_no_deeper_than_allowed() -> None:
    run = simulate(Regime(flat, constant(0.95), draft_token_s=1e-6), DepthController(5), 1000, 1)
    assert max(run.depths) == 5
    assert DepthController(5).next(limit=0) == 0
    assert [nearest_depth(n) for n in (-1, 0, 6, 10, 200)] == [0, 0, 5, 7, 63]


def test_near_the_end_of_an_answer_the_depth_is_cut_and_nothing_breaks() -> None:
    controller = DepthController()
    simulate(Regime(flat, constant(0.9)), controller, 1500, 1)
    deep = controller.next()
    assert deep > 3
    for limit in (3, 2, 1, 0):
        depth = controller.next(limit)
        assert depth <= limit
        controller.record(depth, depth, depth, 0.01 * depth, flat(depth + 1))


def test_a_drafter_that_never_gives_as_many_as_asked_is_not_asked_for_ever() -> None:
    """An end of answer or a full context inside every draft: the trial of a deeper one is given up."""
    controller, asked = DepthController(), []
    for _ in range(400):
        asked.append(controller.next())
        depth = min(asked[-1], 2)
        controller.record(depth, depth, depth, 1e-4, flat(depth + 1))
    assert sum(depth > 2 for depth in asked) <= 0.5 * len(asked)
    assert 2 in asked[-50:]


def second_session(regime: Regime) -> DepthController:
    """A controller with what another one measured in 2,000 tokens."""
    first = DepthController()
    simulate(regime, first, 2000, 1)
    second = DepthController(target=type(first.target).from_dict(json.loads(json.dumps(first.target.to_dict()))))
    second.load(json.loads(json.dumps(first.to_dict())))
    return second


def test_what_was_learnt_survives_in_a_cache() -> None:
    regime = Regime(linear, constant(0.05))
    run = simulate(regime, second_session(regime), 200, 2)
    assert 200 * PLAIN_S / run.seconds >= 0.97, "a short answer, but the costs are known"
    with pytest.raises(ValueError, match="measure anew"):
        DepthController().load({"version": 1})


@pytest.mark.parametrize("cost", [flat, non_monotone, stepped])
def test_a_new_session_drafts_at_once_where_an_earlier_one_found_that_it_pays(cost: Cost) -> None:
    """A question on the command line is a session of its own, and its answer is short."""
    regime = Regime(cost, constant(0.8))
    seconds = [simulate(regime, second_session(regime), 48, seed).seconds for seed in range(2, 12)]
    assert len(seconds) * oracle_seconds(regime, 48) / math.fsum(seconds) >= 0.8


@pytest.mark.parametrize("slowness", [0.3, 3.0])
def test_a_machine_that_changed_since_the_last_session_misleads_no_one(slowness: float) -> None:
    useless = Regime(linear, constant(0.1))
    run = simulate(replace(useless, slowness=lambda _token: slowness), second_session(useless), 200, 2)
    assert 200 * PLAIN_S * slowness / run.seconds >= 0.93


def test_impossible_outcomes_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be"):
        DepthController().record(2, 1, 3, 0.1, 0.1)
    with pytest.raises(ValueError, match="cannot be"):
        DepthController().record(3, 2, 1, 0.1, 0.1)


def test_positions_have_rates_of_their_own_and_the_unseen_follow_the_last() -> None:
    rates = AcceptanceRates(half_life=1000)
    for _ in range(300):
        for tested, accepted in ((1, 0), (2, 1), (2, 1), (2, 2)):
            rates.record(tested, accepted)
    first, second, third = rates.rates(3)
    assert [first, second] == pytest.approx([3 / 4, 1 / 3], abs=0.02)
    assert third == second
    assert rates.expected_tokens((0, 2)) == pytest.approx([1, 1 + 3 / 4 + 1 / 4], abs=0.04)


def test_a_decision_costs_little() -> None:
    """20 µs on a quiet machine; the bound leaves room for a busy one."""
    controller = DepthController()
    regime = Regime(linear, constant(0.2))
    simulate(regime, controller, 300, 1)
    times = []
    for _ in range(10):
        started = time.thread_time()
        for _ in range(100):
            depth = controller.next()
            controller.record(depth, 0, min(depth, 1), 0.01 * depth, linear(depth + 1), 300)
        times.append((time.thread_time() - started) / 100)
    assert min(times) <= 100e-6
