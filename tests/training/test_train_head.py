from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specchat.training.run import Report, Request, train_head
from specchat.training.verdict import CLOSE, verdict

pytest.importorskip("jax", reason="training needs the extra `train`")


def prompts(n: int, rng: np.random.Generator) -> list[list[int]]:
    return [[1, *rng.integers(260, 285, 8).tolist()] for _ in range(n)]


@pytest.fixture(scope="module")
def report(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A head that has learned two texts by heart, and was measured on others."""
    rng = np.random.default_rng(0)
    request = Request(
        target,
        tmp_path_factory.mktemp("trained") / "head.gguf",
        trained=prompts(2, rng),
        held_out=prompts(4, rng),
        unlike=prompts(4, rng),
        minutes=5,
        threads=1,
        most_steps=140,
        draft_tokens=200,
        answer_tokens=40,
    )
    return train_head(request, lambda _sentence: None)


def test_a_head_learns_what_the_target_writes(report: Report) -> None:
    trained = report.agreements["trained"]
    assert trained.rate > 0.4, "two texts were read 140 times"
    assert trained.rate > report.agreements["held-out topics"].rate + 0.2, "what was held out can't be known by heart"
    assert report.steps == 140
    assert report.draft_tokens == 200


def test_in_the_engine_it_is_accepted_as_often_as_numpy_says_and_changes_no_text(report: Report) -> None:
    assert [each.draft_tokens for each in report.measured] == [1, 2, 3, 4]
    for each in report.measured:
        assert each.answers == each.same == 8
        assert sum(each.tested) > 100
        assert each.alpha[0] == pytest.approx(each.predicted[0], abs=CLOSE)
    assert sum(sum(each.accepted) for each in report.measured) > 0, "nothing was accepted, so nothing was compared"


def test_the_report_says_that_a_head_which_slows_down_does_not_pay(report: Report) -> None:
    best = report.best
    assert best is not None
    assert best.speedup < 1, "beside a model of four tiny layers no head can pay"
    assert f"does not pay on a CPU: at its best, with drafts of {best.draft_tokens}" in verdict(report)
    assert "32 of 32 drafted answers are those of plain decoding" in verdict(report)
