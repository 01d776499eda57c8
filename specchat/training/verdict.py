"""What a report comes to, in sentences that promise nothing."""

from __future__ import annotations

from typing import Final

from specchat.llama.library import library
from specchat.training.measuring import Measured
from specchat.training.run import Report

CLOSE: Final = 0.02
"""How far α in the engine may lie from numpy's: both round, and near ties fall either way."""


def verdict(report: Report) -> str:
    """Whether the head pays here, whether the text stayed the same, and whether llama.cpp drafts as numpy does."""
    best = report.best
    if best is None:
        return "Nothing was measured."
    said = [_worth(best.speedup, best.draft_tokens), *map(_needed, report.measured[:1])]
    same, answers = sum(each.same for each in report.measured), sum(each.answers for each in report.measured)
    said.append(f"{same} of {answers} drafted answers are those of plain decoding, token by token.")
    apart = report.farthest_from_predicted
    said.append(
        f"α of the first token lies within {apart:.3f} of what numpy predicts at the same places"
        + ("." if apart <= CLOSE else f": more than {CLOSE}, so something is wrong in how the head is driven.")
    )
    return " ".join(said)


def _worth(speedup: float, depth: int) -> str:
    tokens = "1 token" if depth == 1 else f"{depth} tokens"
    where = "with the GPU of this machine" if library().offloads else "on a CPU"
    if speedup < 1:
        return (
            f"Such a head does not pay {where}: at its best, with drafts of {tokens}, answers come at {speedup:.2f} × "
            "the speed of plain decoding."
        )
    return (
        f"With drafts of {tokens} answers came at {speedup:.2f} × the speed of plain decoding {where}, on these few "
        "questions; leave the choice to --method auto, which measures it in every chat."
    )


def _needed(shortest: Measured) -> str:
    tokens = "1 token" if shortest.draft_tokens == 1 else f"{shortest.draft_tokens} tokens"
    needed = shortest.step_ms / shortest.plain_ms
    return (
        f"A step with {tokens} drafted takes as long as {needed:.2f} plain ones and must bring as many tokens; it "
        f"brings {shortest.tokens_per_step:.2f}."
    )
