"""A bench plans itself to the time: what it gives up first, and how it says so."""

from __future__ import annotations

import pytest

from specchat.bench.extent import FULL, QUICK, Cell, Extent, Pace, left_out, planned

EXTENT = Extent(kinds=("prose", "code", "edit", "list"), temperatures=(0.0, 0.8), rounds=3, tokens=48)
PACE = Pace(answer_s=1.0, token_s=0.1, opening_s=2.0)
"""A cell of 48 tokens takes 5.8 s, a round of eight 46.4 s."""


def test_with_time_enough_all_is_planned_and_every_round_has_fresh_contestants() -> None:
    plan = planned(EXTENT, PACE, 1000.0)
    assert (plan.tokens, len(plan.cells), plan.reopens) == (48, 24, True)
    assert plan.seconds == pytest.approx(24 * 5.8 + 2 * 2.0)
    assert planned(EXTENT, PACE, None) == plan


def test_rounds_are_given_up_before_answers_are_shortened() -> None:
    plan = planned(EXTENT, PACE, 60.0)
    assert plan.tokens == 48
    assert len(plan.cells) == 10
    assert plan.seconds <= 60.0


def test_answers_are_shortened_before_a_class_is_given_up_and_a_class_before_nothing_at_all() -> None:
    shortened = planned(EXTENT, PACE, 30.0)
    assert (shortened.tokens, len(shortened.cells)) == (24, 8)
    cut = planned(EXTENT, PACE, 14.0)
    assert cut.tokens == 24
    # Every class comes once before any comes a second time.
    assert [cell.kind for cell in cut.cells] == ["prose", "code", "edit", "list"]
    assert {cell.temperature for cell in cut.cells} == {0.0, 0.8}
    assert len(planned(EXTENT, PACE, 0.0).cells) == 1


def test_models_that_load_slowly_stay_open() -> None:
    assert planned(EXTENT, PACE, 1000.0).reopens
    assert not planned(EXTENT, Pace(1.0, 0.1, opening_s=30.0), 1000.0).reopens


def test_what_was_left_out_is_said_in_words() -> None:
    first = set(EXTENT.cells(0))
    everything = {cell for number in range(3) for cell in EXTENT.cells(number)}
    assert left_out(EXTENT, everything, 48) == ""
    assert left_out(EXTENT, first, 24) == "answers of 24 tokens instead of 48; rounds 2 to 3"
    some = first - {Cell(0, "edit", 0.8), Cell(0, "list", 0.8), Cell(0, "list", 0.0)}
    assert left_out(EXTENT, some, 48) == ("round 1 of list at T = 0; round 1 of edit, list at T = 0.8; rounds 2 to 3")


def test_the_usual_runs_are_bounded_and_the_full_one_is_not() -> None:
    assert QUICK.budget_s is not None
    assert QUICK.budget_s <= 80
    assert EXTENT.budget_s is not None
    assert EXTENT.budget_s <= 560
    assert FULL.budget_s is None
