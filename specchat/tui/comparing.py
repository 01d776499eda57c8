"""A short comparison of drafting with plain decoding, on the model that is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from textual.content import Content

from specchat.tui.aside import Aside
from specchat.tui.talk import Talk
from specchat.tui.wording import rate
from specchat.worker.messages import Figures

TOKENS: Final = 64
"""Of each answer."""
_WARM_UP: Final = 8
"""Tokens that are written before anything counts: the first passes of a model are slow."""
_KINDS: Final = ("prose", "code", "copy")


@dataclass(frozen=True, slots=True)
class Run:
    """One question, answered both ways."""

    kind: str
    drafted: Figures
    plain: Figures


@dataclass(frozen=True, slots=True)
class Comparison:
    """What all of them say together."""

    method: str
    tokens: int
    runs: Sequence[Run]

    @property
    def drafted_tok_s(self) -> float:
        """Tokens a second with drafts, over all questions."""
        return _tok_s([run.drafted for run in self.runs])

    @property
    def plain_tok_s(self) -> float:
        """Tokens a second without."""
        return _tok_s([run.plain for run in self.runs])

    @property
    def speedup(self) -> float:
        """Of the one over the other."""
        return self.drafted_tok_s / self.plain_tok_s if self.plain_tok_s else 0.0

    def sentence(self) -> str:
        """The result in one line."""
        return (
            f"{self.method}: {rate(self.drafted_tok_s)} tok/s, plain: {rate(self.plain_tok_s)} tok/s, so drafting is "
            f"worth {self.speedup:.2f}× here."
        )

    def table(self) -> Content:
        """Every question and all of them."""
        head = Content.styled(
            f"{'':<8}{'drafting':>10}{'plain':>10}{'speed-up':>10}{'α':>7}{'τ':>7}", "$foreground-muted"
        )
        lines = [head, *(_row(run.kind, run.drafted, run.plain) for run in self.runs)]
        how = (
            f"{len(self.runs)} questions, up to {self.tokens} tokens each, in tokens a second of decoding; sampled as "
            "the chat's answers are. The conversation is read once more at the next answer."
        )
        return Content("\n").join(
            [Content.styled(self.sentence(), "bold"), Content(""), *lines, Content(""), Content(how)]
        )


def _row(kind: str, drafted: Figures, plain: Figures) -> Content:
    speedup = drafted.tok_s / plain.tok_s if drafted.tok_s and plain.tok_s else None
    cells = (
        f"{rate(drafted.tok_s):>10}" if drafted.tok_s else f"{'–':>10}",
        f"{rate(plain.tok_s):>10}" if plain.tok_s else f"{'–':>10}",
        f"{speedup:>9.2f}×" if speedup is not None else f"{'–':>10}",
        f"{drafted.alpha:>7.2f}" if drafted.alpha is not None else f"{'–':>7}",
        f"{drafted.tokens_per_step:>7.2f}" if drafted.tokens_per_step is not None else f"{'–':>7}",
    )
    return Content.assemble((f"{kind:<8}", "$foreground-muted"), "".join(cells))


def _tok_s(answers: Sequence[Figures]) -> float:
    seconds = sum(each.tokens / each.tok_s for each in answers if each.tok_s)
    return sum(each.tokens for each in answers if each.tok_s) / seconds if seconds else 0.0


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
            found: dict[bool, Figures] = {}
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
