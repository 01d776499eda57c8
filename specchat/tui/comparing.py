"""A short comparison of drafting with plain decoding, on the model that is open."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from specchat.bench.comparison import Comparison, Run, Speed
from specchat.tui.aside import Aside
from specchat.tui.talk import Talk
from specchat.tui.wording import rate
from specchat.worker.messages import Figures

TOKENS: Final = 64
"""Of each answer."""
_WARM_UP: Final = 8
"""Tokens that are written before anything counts: the first passes of a model are slow."""
_KINDS: Final = ("prose", "code", "copy")


def in_one_line(comparison: Comparison) -> str:
    """The result as a sentence."""
    return (
        f"{comparison.method}: {rate(comparison.drafted_tok_s)} tok/s, plain: {rate(comparison.plain_tok_s)} tok/s, so "
        f"drafting is worth {comparison.speedup:.2f}× here."
    )


def table_of(comparison: Comparison) -> Content:
    """Every question and all of them."""
    head = Content.styled(f"{'':<8}{'drafting':>10}{'plain':>10}{'speed-up':>10}{'α':>7}{'τ':>7}", "$foreground-muted")
    lines = [head, *map(_row, comparison.runs)]
    how = (
        f"{len(comparison.runs)} questions, up to {comparison.tokens} tokens each, in tokens a second of decoding; "
        "sampled as the chat's answers are. The conversation is read once more at the next answer."
    )
    return Content("\n").join(
        [Content.styled(in_one_line(comparison), "bold"), Content(""), *lines, Content(""), Content(how)]
    )


def _row(run: Run) -> Content:
    drafted, plain, speedup = run.drafted, run.plain, run.speedup
    cells = (
        f"{rate(drafted.tok_s):>10}" if drafted.tok_s else f"{'–':>10}",
        f"{rate(plain.tok_s):>10}" if plain.tok_s else f"{'–':>10}",
        f"{speedup:>9.2f}×" if speedup is not None else f"{'–':>10}",
        f"{drafted.alpha:>7.2f}" if drafted.alpha is not None else f"{'–':>7}",
        f"{drafted.tokens_per_step:>7.2f}" if drafted.tokens_per_step is not None else f"{'–':>7}",
    )
    return Content.assemble((f"{run.kind:<8}", "$foreground-muted"), "".join(cells))


async def compare(talk: Talk, method: str, tokens: int) -> Comparison | None:
    """Answer every question both ways, in turns that begin with another way each; None where the user stopped it.

    Raises ValueError, with a sentence, where an answer failed.
    """
    from specchat.bench.prompts import PROMPTS

    aside = talk.begin_aside("getting ready to measure")
    try:
        await _answered(talk, aside, PROMPTS[_KINDS[0]][1], speculate=True, tokens=_WARM_UP)
        runs = []
        for number, kind in enumerate(_KINDS):
            found: dict[bool, Speed] = {}
            for step, speculate in enumerate((True, False) if number % 2 == 0 else (False, True)):
                how = method if speculate else "plain"
                aside.words = f"measuring {2 * number + step + 1} of {2 * len(_KINDS)}: {kind}, {how}"
                talk.stage.changed()
                figures = await _answered(talk, aside, PROMPTS[kind][0], speculate=speculate, tokens=tokens)
                if figures is None:
                    return None
                found[speculate] = figures
            runs.append(Run(kind, found[True], found[False]))
        return Comparison(method, tokens, runs)
    finally:
        await talk.end_aside()


async def _answered(talk: Talk, aside: Aside, question: str, *, speculate: bool, tokens: int) -> Figures | None:
    written = await aside.ask(talk.request((("user", question),), speculate=speculate, max_tokens=tokens))
    if written.end.error:
        raise ValueError(f"Nothing was measured: {written.end.error}")
    return None if written.cancelled else written.end.figures
