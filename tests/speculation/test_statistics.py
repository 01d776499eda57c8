"""Statistics with fixed seeds: the whole path from logits at T > 0 to emitted text."""

from __future__ import annotations

import itertools
from functools import cache, partial

import numpy as np
import pytest

from specchat.speculation.acceptance import Exact, acceptance_rule
from specchat.speculation.distribution import Distribution, SamplingParams, warp
from specchat.speculation.metrics import Metrics
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.step import Draft

from . import chi_square

VOCABULARY = 10
GAMMA = 2
STEPS = {
    AcceptanceMode.EXACT: 4000,
    AcceptanceMode.BLOCK: 4000,
    AcceptanceMode.COUPLED: 1500,
    AcceptanceMode.TYPICAL: 2000,
}
SETTINGS = {
    "truncated": SamplingParams(0.8, top_k=6, top_p=0.9, min_p=0.02),
    "full": SamplingParams(1.2, top_k=0, top_p=1, min_p=0),
    "penalties": SamplingParams(1.0, top_k=8, repeat_penalty=1.4, presence_penalty=0.5, logit_bias={3: 1.0}),
}
PROMPT = (1, 4, 2)


@cache
def distribution(model: str, history: tuple[int, ...], setting: str) -> Distribution:
    """A model whose logits depend on the last two tokens; the draft is the target with noise."""
    logits = np.random.default_rng([*history[-2:]]).normal(0, 1.5, VOCABULARY)
    if model == "draft":
        logits += np.random.default_rng([9, *history[-2:]]).normal(0, 0.8, VOCABULARY)
    return warp(logits.astype(np.float32), history, SETTINGS[setting])


def joint_law(setting: str) -> list[float]:
    """The target's law of the two tokens after the prompt."""
    first = distribution("target", PROMPT, setting)
    return [
        first.prob(a) * distribution("target", (*PROMPT, a), setting).prob(b)
        for a, b in itertools.product(range(VOCABULARY), repeat=2)
    ]


def target_row(ids: list[int], setting: str, i: int) -> Distribution:
    return distribution("target", (*PROMPT, *ids[:i]), setting)


@cache
def two_tokens(mode: AcceptanceMode, kind: str, setting: str) -> tuple[list[int], Metrics]:
    """Count joint pairs after the prompt, over steps of γ = 2 continued by plain ones."""
    counts, metrics = [0] * VOCABULARY**2, Metrics()
    rule = acceptance_rule(mode, seed=20)
    lookup = np.random.default_rng(21)
    for turn in range(STEPS[mode]):
        start = len(PROMPT) + 10 * turn  # each turn has positions, and so Gumbel noise, of its own
        ids: list[int] = []
        proposals = []
        for i in range(GAMMA):
            proposals.append(distribution("draft", (*PROMPT, *ids), setting))
            ids.append(rule.draw(proposals[i], start + i) if kind == "sampled" else int(lookup.integers(VOCABULARY)))
        draft = Draft(ids, proposals if kind == "sampled" else None)
        step = rule.accept(draft, partial(target_row, ids, setting), start)
        tokens = list(step.tokens)
        metrics.record(step, 0, 0)
        if len(tokens) < 2:
            tokens.append(rule.draw(distribution("target", (*PROMPT, *tokens), setting), start + 1))
        counts[tokens[0] * VOCABULARY + tokens[1]] += 1
    return counts, metrics


LOSSLESS = [mode for mode in AcceptanceMode if mode is not AcceptanceMode.TYPICAL]


@pytest.mark.parametrize("mode", LOSSLESS)
@pytest.mark.parametrize("kind", ["sampled", "one-hot"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_joint_pairs_have_the_targets_law(mode: AcceptanceMode, kind: str, setting: str) -> None:
    counts, metrics = two_tokens(mode, kind, setting)
    assert abs(chi_square.excess(counts, joint_law(setting))) < 3.5
    assert metrics.accepted > STEPS[mode] / 20


@pytest.mark.parametrize("setting", SETTINGS)
def test_typical_pairs_do_not(setting: str) -> None:
    """The same test sees a law that is only a little off: it has the power to."""
    counts, _ = two_tokens(AcceptanceMode.TYPICAL, "sampled", setting)
    assert chi_square.excess(counts, joint_law(setting)) > 6


@pytest.mark.parametrize("setting", SETTINGS)
def test_block_accepts_more_than_exact(setting: str) -> None:
    exact = two_tokens(AcceptanceMode.EXACT, "sampled", setting)[1]
    block = two_tokens(AcceptanceMode.BLOCK, "sampled", setting)[1]
    assert block.accepted >= exact.accepted


def pair(seed: int) -> tuple[Distribution, Distribution, float]:
    """A target and a draft distribution, and their overlap Σ min(p, q)."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, 60).astype(np.float32)
    noisy = logits + rng.normal(0, 0.7, 60).astype(np.float32)
    p, q = (warp(x, [], SamplingParams(0.9, top_k=30)) for x in (logits, noisy))
    return p, q, sum(min(p.prob(token), q.prob(token)) for token in range(60))


@pytest.mark.parametrize("seed", range(2))
def test_alpha_of_exact_is_the_overlap(seed: int) -> None:
    p, q, overlap = pair(seed)
    rule, metrics = Exact(np.random.default_rng(seed)), Metrics()
    for _ in range(5000):
        metrics.record(rule.accept(Draft([rule.draw(q, 0)], [q]), lambda _: p, 0), 0, 0)
    assert 0.3 < overlap < 0.95
    assert metrics.alpha == pytest.approx(overlap, abs=4 * (overlap * (1 - overlap) / 5000) ** 0.5)


@pytest.mark.parametrize("seed", range(2))
def test_coupled_drafts_match_at_least_as_often_as_promised(seed: int) -> None:
    """Pr[match] ≥ (1 − TV)/(1 + TV), and no coupling matches more often than the overlap."""
    p, q, overlap = pair(seed)
    rule, metrics = acceptance_rule(AcceptanceMode.COUPLED, seed), Metrics()
    for position in range(3000):
        metrics.record(rule.accept(Draft([rule.draw(q, position)]), lambda _: p, position), 0, 0)
    assert metrics.alpha is not None
    assert overlap / (2 - overlap) - 0.02 < metrics.alpha < overlap + 0.02
