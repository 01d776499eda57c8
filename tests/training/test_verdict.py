from __future__ import annotations

from specchat.training.measuring import Measured
from specchat.training.run import Report
from specchat.training.verdict import verdict


def measured(draft_tokens: int, ms: float, *, accepted: int = 30, same: int = 10) -> Measured:
    """Ten answers of 100 tokens beside plain decoding at 10 ms a token; numpy predicts an α of 0.3."""
    places = draft_tokens - 1
    return Measured(
        draft_tokens, 10, 1000, same, (100, *[0] * places), (accepted, *[0] * places), (0.3, *[0.0] * places), 1.25,
        10.0, ms,
    )  # fmt: skip


def test_a_head_that_slows_decoding_down_does_not_pay_and_it_says_what_it_would_have_to_bring() -> None:
    said = verdict(Report(measured=[measured(1, 12.5), measured(2, 20.0)]))
    assert said.startswith(
        "Such a head does not pay on a CPU: at its best, with drafts of 1 token, answers come at 0.80 × the speed of "
        "plain decoding. A step with 1 token drafted takes as long as 1.56 plain ones and must bring as many tokens; "
        "it brings 1.25. 20 of 20 drafted answers are those of plain decoding"
    )


def test_a_head_that_is_faster_is_said_to_be_so_on_these_questions_only() -> None:
    said = verdict(Report(measured=[measured(1, 9.0), measured(2, 8.0, same=9)]))
    assert "With drafts of 2 tokens answers came at 1.25 × the speed of plain decoding on a CPU, on these few" in said
    assert "does not pay" not in said
    assert "19 of 20 drafted answers" in said


def test_an_alpha_that_numpy_does_not_predict_is_called_wrong() -> None:
    assert "within 0.000 of what numpy predicts at the same places." in verdict(Report(measured=[measured(1, 12.5)]))
    assert "something is wrong" in verdict(Report(measured=[measured(1, 12.5, accepted=35)]))


def test_nothing_measured_is_said() -> None:
    assert verdict(Report()) == "Nothing was measured."
