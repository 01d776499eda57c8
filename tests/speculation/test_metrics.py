from __future__ import annotations

import pytest

from specchat.speculation.metrics import Metrics
from specchat.speculation.step import Origin, Step

FULL = Step((1, 2, 3, 4), accepted=3, tested=3, drafted=3)
REJECTED_AT_1 = Step((1, 9), accepted=1, tested=2, drafted=3)
REJECTED_AT_0 = Step((9,), accepted=0, tested=1, drafted=3)
PLAIN = Step((5,), accepted=0, tested=0, drafted=0)


def recorded(*steps: Step) -> Metrics:
    metrics = Metrics()
    for step in steps:
        metrics.record(step, draft_s=0.25, verify_s=0.5)
    return metrics


def test_totals() -> None:
    metrics = recorded(FULL, REJECTED_AT_1, REJECTED_AT_0, PLAIN, PLAIN)
    assert (metrics.steps, metrics.drafted, metrics.tested, metrics.accepted) == (5, 9, 6, 4)
    assert metrics.emitted == 4 + 2 + 1 + 1 + 1
    assert (metrics.draft_s, metrics.verify_s) == (1.25, 2.5)
    assert dict(metrics.depths) == {3: 3, 0: 2}


def test_alpha_leaves_out_tokens_that_were_never_tested() -> None:
    assert recorded(FULL, REJECTED_AT_1, REJECTED_AT_0).alpha == 4 / 6


def test_rates_of_nothing_are_none() -> None:
    assert recorded().alpha is None
    assert recorded().tokens_per_step is None
    assert recorded(PLAIN).alpha is None
    assert recorded().per_position == recorded(PLAIN).per_position == ()


def test_tokens_per_step() -> None:
    assert recorded(PLAIN, PLAIN, PLAIN).tokens_per_step == 1
    assert recorded(FULL, REJECTED_AT_0).tokens_per_step == 2.5


def test_per_position_is_conditional() -> None:
    assert recorded(FULL, REJECTED_AT_1, REJECTED_AT_0, PLAIN).per_position == (2 / 3, 1 / 2, 1)


def test_a_cut_step_counts_what_is_left_of_it() -> None:
    metrics = recorded(FULL.cut(2), REJECTED_AT_1.cut(1), FULL.cut(0))
    assert (metrics.steps, metrics.emitted, metrics.tested, metrics.accepted) == (3, 3, 3, 3)
    assert list(metrics.per_position) == [1, 1]
    assert metrics.depths == {3: 3}


@pytest.mark.parametrize(
    ("step", "origins"),
    [
        (FULL, [Origin.ACCEPTED] * 3 + [Origin.BONUS]),
        (REJECTED_AT_1, [Origin.ACCEPTED, Origin.CORRECTED]),
        (REJECTED_AT_0, [Origin.CORRECTED]),
        (PLAIN, [Origin.PLAIN]),
        (FULL.cut(3), [Origin.ACCEPTED] * 3),
        (REJECTED_AT_1.cut(1), [Origin.ACCEPTED]),
        (PLAIN.cut(0), []),
    ],
)
def test_origins(step: Step, origins: list[Origin]) -> None:
    assert list(step.origins) == origins


def test_cut() -> None:
    assert FULL.cut(4) is FULL
    assert FULL.cut(3) == Step((1, 2, 3), accepted=3, tested=3, drafted=3)
    assert FULL.cut(1) == Step((1,), accepted=1, tested=1, drafted=3)
    assert REJECTED_AT_1.cut(1) == Step((1,), accepted=1, tested=1, drafted=3)
    assert REJECTED_AT_0.cut(0) == Step((), accepted=0, tested=0, drafted=3)
