"""Medians, spread and predictions, against figures reckoned by hand."""

from __future__ import annotations

import json

import pytest

from specchat.bench.entrants import PLAIN, Arm, Figures
from specchat.bench.passes import Passes
from specchat.bench.results import Contest, Sample
from specchat.bench.summary import Row, as_data, summarise
from specchat.drafters.method import Method
from specchat.speculation.theory import expected_tokens
from tests.bench.contests import DRAFT, PASSES, SUFFIX, drafted, plain, small_contest


def row(found: Contest, label: str, kind: str | None = None) -> Row:
    held = summarise(found).row(label, 0.0, kind)
    assert held is not None
    return held


def test_the_speed_up_is_a_median_of_pairs_with_its_range() -> None:
    found = row(small_contest(), DRAFT.label)
    assert found.speedup is not None
    # 50 tokens in 0.36 and 0.40 s against 40 in 0.40.
    assert (found.speedup.low, found.speedup.high) == pytest.approx((1.25, 50 / 36))
    assert found.speedup.median == pytest.approx((1.25 + 50 / 36) / 2)
    assert found.answers == 4
    assert row(small_contest(), PLAIN.label).speedup is None


def test_a_pair_is_of_one_round_so_a_machine_that_slows_down_cancels_out() -> None:
    found = small_contest()
    found.samples = [
        Sample(label, "prose", 0.0, number, Figures(40, seconds * (1 + 9 * number), 0.1, steps=40, depths={0: 40}))
        for number in range(2)
        for label, seconds in ((PLAIN.label, 0.4), (SUFFIX.label, 0.5))
    ]
    speedup = row(found, SUFFIX.label).speedup
    assert speedup is not None
    assert (speedup.low, speedup.high) == pytest.approx((0.8, 0.8))


def test_acceptance_counts_tested_tokens_and_positions() -> None:
    found = row(small_contest(), DRAFT.label)
    assert found.alpha == pytest.approx(30 / 40)
    assert found.per_position == pytest.approx((0.5, 1.0, 1.0))
    assert found.tokens_per_step == pytest.approx(2.5)
    assert found.ceiling == pytest.approx(4.0)


def test_the_prediction_is_tokens_over_measured_passes_and_drafting() -> None:
    found = row(small_contest(), DRAFT.label, "prose")
    # A step brings 1 + 0.5 · 3 tokens, of 10 ms each when plain; it takes 16 ms to verify and 2 ms to draft.
    assert found.predicted == pytest.approx(2.5 * 10 / (16 + 2))
    assert found.speedup is not None
    assert found.error == pytest.approx(25 / 18 / found.speedup.median - 1)


def test_the_prediction_knows_nothing_of_the_time_that_the_answer_took() -> None:
    slow = small_contest()
    slow.samples = [
        Sample(s.label, s.kind, s.temperature, s.round, drafted(seconds=9.0) if s.label == DRAFT.label else s.figures)
        for s in slow.samples
    ]
    assert row(slow, DRAFT.label).predicted == pytest.approx(row(small_contest(), DRAFT.label).predicted)
    assert abs(row(slow, DRAFT.label).error or 0) > 1


def test_a_copier_that_found_nothing_is_predicted_to_change_nothing() -> None:
    found = row(small_contest(), SUFFIX.label)
    assert found.predicted == pytest.approx(1.0)
    assert found.alpha is None
    assert found.ceiling is None


def test_an_oracle_is_predicted_from_its_known_rate_and_not_from_luck() -> None:
    arm = Arm(Method.PROMPT_LOOKUP, 3, 0.8)
    found = small_contest()
    found.labels, found.arms = [PLAIN.label, arm.label], {PLAIN.label: PLAIN, arm.label: arm}
    found.samples = [
        Sample(PLAIN.label, "prose", 0.0, 0, plain()),
        Sample(arm.label, "prose", 0.0, 0, drafted(draft_s=0.0)),
    ]
    assert row(found, arm.label).predicted == pytest.approx(expected_tokens(0.8, 3) * 10 / 16)


def test_a_pass_that_was_not_measured_lies_on_the_line_between_its_neighbours() -> None:
    assert PASSES.ratio(1) == 1
    assert PASSES.ratio(4) == pytest.approx(1.6)
    assert PASSES.ratio(6) == pytest.approx(2.0)
    assert PASSES.ratio(12) == pytest.approx(3.2)
    assert Passes({1: (0.01, 0.01, 0.01)}, {1: 1.0}, 0).ratio(5) == 1


def test_an_answer_of_one_token_has_no_rate_and_spoils_no_median() -> None:
    found = small_contest()
    found.samples += [Sample(label, "code", 0.0, 7, Figures(0, 0.0, 0.1)) for label in (PLAIN.label, DRAFT.label)]
    assert row(found, DRAFT.label).speedup == row(small_contest(), DRAFT.label).speedup


def test_the_data_can_be_written_as_json_and_hold_every_sample() -> None:
    found = small_contest()
    data = json.loads(json.dumps(as_data(found, summarise(found)), allow_nan=False))
    assert len(data["samples"]) == len(found.samples)
    assert data["passes"]["seconds"]["4"]["median"] == 0.016
    assert {entry["label"] for entry in data["overall"]} == set(found.labels)
    assert data["versions"]["numpy"]
