"""The plain rate that speed-ups are measured against: only ever measured, and cheap to measure."""

from __future__ import annotations

import json

import pytest

from specchat.speculation.baseline import Baseline


def plain(baseline: Baseline, seconds: float, context: int, times: int = 6) -> None:
    for _ in range(times):
        baseline.record(0, seconds, context)


def test_never_measured_means_no_number() -> None:
    baseline = Baseline()
    assert baseline.tok_s(100) is None
    for _ in range(20):
        baseline.record(3, 0.2, 100)
    assert baseline.tok_s(100) is None


def test_late_passes_and_the_first_after_a_draft_do_not_count() -> None:
    baseline = Baseline()
    for _ in range(5):
        baseline.record(3, 0.2, 100)
        baseline.record(0, 0.9, 100)
        plain(baseline, 0.1, 100, times=2)
    baseline.record(0, 1.0, 100)
    rate = baseline.tok_s(100)
    assert rate == pytest.approx(10)


def test_the_rate_belongs_to_a_context() -> None:
    baseline = Baseline()
    plain(baseline, 0.1, 100)
    plain(baseline, 0.2, 2100)
    assert baseline.tok_s(50) == pytest.approx(10)
    assert baseline.tok_s(2200) == pytest.approx(5)
    assert baseline.tok_s(1100) == pytest.approx(1 / 0.15)
    assert baseline.tok_s(9000) == pytest.approx(5)


def test_a_machine_that_slows_down_is_followed() -> None:
    baseline = Baseline()
    plain(baseline, 0.1, 100, times=30)
    plain(baseline, 0.3, 100, times=9)
    assert baseline.tok_s(100) == pytest.approx(1 / 0.3)


@pytest.mark.parametrize("steps", [20, 128, 1000, 5000])
def test_a_few_plain_steps_early_in_a_turn_and_rarely_later(steps: int) -> None:
    baseline = Baseline()
    baseline.begin_turn()
    asked = []
    for step in range(steps):
        wants = baseline.wants_plain_step()
        if wants:
            asked.append(step)
        baseline.record(0 if wants else 3, 0.1, step)
    assert asked[:3] == [8, 9, 10]
    assert len(asked) <= 3 + 0.02 * steps
    if steps >= 1000:
        assert len(asked) >= 3 + 0.005 * steps
        assert asked[4] == asked[3] + 1, "the second of a pair is the one that counts"


def test_a_cache_stands_until_the_machine_is_measured_again() -> None:
    baseline = Baseline()
    plain(baseline, 0.1, 100)
    again = Baseline.from_dict(json.loads(json.dumps(baseline.to_dict())))
    assert again.tok_s(100) == pytest.approx(10)
    plain(again, 0.2, 100)
    assert again.tok_s(100) == pytest.approx(5)


@pytest.mark.parametrize(
    "data", [{}, {"version": 1, "bucket": 512, "seconds": {"0": 0}}, {"version": 1, "bucket": 9, "seconds": {}}]
)
def test_a_damaged_cache_is_refused_in_a_sentence(data: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="measure anew"):
        Baseline.from_dict(data)


def test_a_time_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="positive time"):
        Baseline().record(0, 0.0, 10)
