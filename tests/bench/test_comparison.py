"""What a short comparison of drafting with plain decoding says in numbers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from specchat.bench.comparison import Comparison, Run


@dataclass(frozen=True)
class Measured:
    tokens: int
    tok_s: float | None
    alpha: float | None = None
    tokens_per_step: float | None = None


def test_a_speed_is_that_of_all_tokens_over_all_seconds_and_not_the_mean_of_speeds() -> None:
    # 1 s and 4 s with drafts, 2 s and 5 s without.
    runs = [Run("prose", Measured(60, 60.0), Measured(60, 30.0)), Run("code", Measured(40, 10.0), Measured(40, 8.0))]
    found = Comparison("auto", 64, runs)
    assert found.drafted_tok_s == pytest.approx(100 / 5)
    assert found.plain_tok_s == pytest.approx(100 / 7)
    assert found.speedup == pytest.approx(7 / 5)
    assert [run.speedup for run in runs] == [2.0, 1.25]


def test_what_was_not_measured_counts_for_nothing() -> None:
    runs = [Run("prose", Measured(0, None), Measured(60, 30.0)), Run("code", Measured(40, 60.0), Measured(40, 30.0))]
    found = Comparison("auto", 64, runs)
    assert (found.drafted_tok_s, found.plain_tok_s) == pytest.approx((60.0, 30.0))
    assert runs[0].speedup is None
    assert Comparison("auto", 64, []).speedup == 0.0
