"""A contest with figures that can be reckoned by hand."""

from __future__ import annotations

from specchat.bench.entrants import PLAIN, Arm, Figures
from specchat.bench.extent import Extent
from specchat.bench.passes import Passes
from specchat.bench.results import Contest, Sample
from specchat.drafters.method import Method

DRAFT, SUFFIX = Arm(Method.DRAFT, 3), Arm(Method.SUFFIX, 7)
PASSES = Passes(
    {1: (0.010, 0.009, 0.012), 4: (0.016, 0.015, 0.018), 8: (0.024, 0.020, 0.030)}, {1: 1.0, 4: 1.6, 8: 2.4}, 40
)
"""A pass over four tokens costs 1.6, one over eight 2.4 times one."""


def plain(seconds: float = 0.40) -> Figures:
    """Forty tokens, one a step."""
    return Figures(40, seconds, 0.1, steps=40, depths={0: 40})


def drafted(steps: int = 20, draft_s: float = 0.04, seconds: float = 0.36) -> Figures:
    """Forty tokens in steps of three drafted ones, half of which are accepted at the first place, all after."""
    half = steps // 2
    return Figures(
        tokens=half * 5,
        seconds=seconds,
        ttft_s=0.1,
        steps=steps,
        drafted=3 * steps,
        tested=steps + 2 * half,
        accepted=3 * half,
        draft_s=draft_s,
        depths={3: steps},
        tested_at=[steps, half, half],
        accepted_at=[half, half, half],
    )


def small_contest() -> Contest:
    """Plain decoding, a draft model, a copier that finds nothing, and a peer; two classes, two temperatures."""
    found = Contest("toy.gguf", Extent(kinds=("prose", "code"), temperatures=(0.0, 1.0), rounds=2, tokens=41))
    found.labels = [PLAIN.label, DRAFT.label, SUFFIX.label, "peer plain"]
    found.arms = {PLAIN.label: PLAIN, DRAFT.label: DRAFT, SUFFIX.label: SUFFIX}
    found.passes = PASSES
    for number in range(2):
        for kind in found.extent.kinds:
            for temperature in found.extent.temperatures:
                figures = {
                    PLAIN.label: plain(),
                    DRAFT.label: drafted(seconds=0.36 + 0.04 * number),
                    SUFFIX.label: plain(0.42),
                    "peer plain": Figures(40, 0.38, 0.1, steps=40),
                }
                found.samples += [Sample(label, kind, temperature, number, f) for label, f in figures.items()]
    return found
