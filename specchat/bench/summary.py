"""What a contest says: medians with their spread, and how well theory, acceptance and cost explain them.

The prediction knows three measured things and no clock of the answer it predicts: T(n) of passes measured apart, the
rates of acceptance by position, and the seconds a drafter took. Where it misses, the loop costs something that none
of the three accounts for.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specchat.bench.entrants import PLAIN, Arm
from specchat.bench.passes import Passes
from specchat.bench.record import provenance
from specchat.bench.results import Contest, Sample
from specchat.speculation.theory import ceiling, expected_tokens, predicted_tokens

Pair = tuple[Sample, Sample]
"""An answer, and plain decoding's of the same round, prompt and temperature."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the range around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread | None:
        """Of `values`; None without any."""
        held = sorted(values)
        return cls(statistics.median(held), held[0], held[-1]) if held else None


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant at one temperature, over one class of prompts or all of them."""

    label: str
    kind: str | None
    """None: all classes."""
    temperature: float
    answers: int
    tok_s: Spread | None
    speedup: Spread | None
    """Over plain decoding, pair by pair."""
    alpha: float | None
    """Accepted over tested tokens; None where nothing was tested, and of a peer, which doesn't tell."""
    tokens_per_step: float | None
    per_position: tuple[float, ...]
    predicted: float | None
    """The speed-up that T(n), acceptance and the drafter's time explain."""
    error: float | None
    """Predicted over measured, less 1."""
    ceiling: float | None
    """1 / (1 − α): tokens a step, and so the speed-up, of endless drafts that cost nothing; None: no bound (α = 1)."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Rows over all classes, and rows by class, in the order of the contest."""

    overall: list[Row]
    by_kind: list[Row]

    def row(self, label: str, temperature: float, kind: str | None = None) -> Row | None:
        """The row of `label`, if it answered there."""
        rows = self.overall if kind is None else self.by_kind
        return next((r for r in rows if (r.label, r.temperature, r.kind) == (label, temperature, kind)), None)


def summarise(found: Contest) -> Summary:
    """The rows of every contestant that answered."""
    plain = {_place(s): s for s in found.samples if s.label == PLAIN.label}
    temperatures = sorted({sample.temperature for sample in found.samples})
    overall, by_kind = list[Row](), list[Row]()
    for label in found.labels:
        for temperature in temperatures:
            pairs = [
                (sample, plain[_place(sample)])
                for sample in found.samples
                if sample.label == label
                and sample.temperature == temperature
                # The last round of an interrupted contest may lack its base.
                and _place(sample) in plain
            ]
            if not pairs:
                continue
            arm = found.arms.get(label)
            overall.append(_row(pairs, None, arm, found.passes))
            for kind in dict.fromkeys(sample.kind for sample, _ in pairs):
                by_kind.append(_row([pair for pair in pairs if pair[0].kind == kind], kind, arm, found.passes))
    return Summary(overall, by_kind)


def _place(sample: Sample) -> tuple[int, str, float, int]:
    return sample.heat, sample.kind, sample.temperature, sample.round


def _row(pairs: Sequence[Pair], kind: str | None, arm: Arm | None, passes: Passes | None) -> Row:
    samples = [sample for sample, _ in pairs]
    label = samples[0].label
    ratios = [a / b for a, b in ((ours.figures.rate, base.figures.rate) for ours, base in pairs) if a and b]
    speedup = None if label == PLAIN.label else Spread.of(ratios)
    tested, accepted = _total(samples, "tested"), _total(samples, "accepted")
    alpha = accepted / tested if tested else None
    steps = _total(samples, "steps")
    predicted = None if arm is None or arm == PLAIN or passes is None else _predicted(pairs, arm, passes)
    return Row(
        label=label,
        kind=kind,
        temperature=samples[0].temperature,
        answers=len(samples),
        tok_s=Spread.of(rate for rate in (sample.figures.rate for sample in samples) if rate),
        speedup=speedup,
        alpha=alpha,
        tokens_per_step=_total(samples, "tokens") / steps if steps else None,
        per_position=_per_position(samples),
        predicted=predicted,
        error=predicted / speedup.median - 1 if predicted and speedup else None,
        ceiling=None if alpha is None or alpha == 1 else ceiling(alpha),
    )


def _total(samples: Sequence[Sample], name: str) -> int:
    return sum(getattr(sample.figures, name) for sample in samples)


def _per_position(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Accepted over tested at each position of the draft."""
    tested, accepted = Counter[int](), Counter[int]()
    for sample in samples:
        tested.update(dict(enumerate(sample.figures.tested_at)))
        accepted.update(dict(enumerate(sample.figures.accepted_at)))
    return tuple(accepted[i] / tested[i] for i in sorted(tested) if tested[i])


def _predicted(pairs: Sequence[Pair], arm: Arm, passes: Passes) -> float | None:
    """Predicted tokens over predicted time against plain decoding of those tokens, class by class."""
    plain_s = drafted_s = 0.0
    for kind in dict.fromkeys(sample.kind for sample, _ in pairs):
        group = [(ours, base) for ours, base in pairs if ours.kind == kind and base.figures.tokens]
        tokens_after = _tokens_after(arm, _per_position([ours for ours, _ in group]))
        for ours, base in group:
            step_s = base.figures.seconds / base.figures.tokens
            figures = ours.figures
            plain_s += step_s * sum(count * tokens_after(depth) for depth, count in figures.depths.items())
            passes_s = step_s * sum(count * passes.ratio(depth + 1) for depth, count in figures.depths.items())
            drafted_s += passes_s + figures.draft_s
    return plain_s / drafted_s if drafted_s > 0 else None


def _tokens_after(arm: Arm, rates: Sequence[float]) -> Callable[[int], float]:
    """Tokens expected of a step that drafts so many: by the oracle's known rate, else by the measured ones."""
    if arm.alpha is not None:
        alpha = arm.alpha
        return lambda depth: expected_tokens(alpha, depth)
    return lambda depth: predicted_tokens(rates[:depth])


def as_data(found: Contest, summary: Summary) -> dict[str, Any]:
    """Everything, JSON-able."""
    passes = found.passes
    head = provenance(
        "specchat bench",
        model=found.model,
        quantisation=found.quantisation,
        threads=found.threads,
        flash_attention=found.flash_attention,
    )
    return {
        **head,
        "extent": asdict(found.extent),
        "tokens": found.tokens,
        "openings": found.openings,
        "left_out": found.left_out,
        "complete": found.complete,
        "interrupted": found.interrupted,
        "seconds": found.seconds,
        "passes": None
        if passes is None
        else {
            "context": passes.context,
            "ratios": {str(n): ratio for n, ratio in passes.ratios.items()},
            "seconds": {
                str(n): dict(zip(("median", "low", "high"), t, strict=True)) for n, t in passes.seconds.items()
            },
        },
        "overall": [asdict(row) for row in summary.overall],
        "by_kind": [asdict(row) for row in summary.by_kind],
        "missing": [asdict(gone) for gone in found.missing],
        "notes": found.notes,
        "samples": [asdict(sample) for sample in found.samples],
    }
