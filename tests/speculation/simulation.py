"""A simulated machine and text, and what controllers make of them against the oracle that knows both.

`python -m tests.speculation.simulation` prints the table.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from specchat.speculation.arms import Arms, Choice, Offer, Why
from specchat.speculation.depth import DEPTHS, DepthController

PLAIN_S = 0.1
Cost = Callable[[int], float]
Alpha = Callable[[int], float]


def flat(rows: int) -> float:
    return PLAIN_S * (1 + 0.01 * (rows - 1))


def linear(rows: int) -> float:
    return PLAIN_S * (0.6 + 0.4 * rows)


def stepped(rows: int) -> float:
    """Kernels that work in fours."""
    return PLAIN_S * (0.7 + 0.35 * math.ceil(rows / 4) if rows > 1 else 1)


def non_monotone(rows: int) -> float:
    """The padded target of the lab notes: four rows cost less than three."""
    odd = {1: 1.0, 2: 1.66, 3: 2.16, 4: 1.53}
    return PLAIN_S * (odd[rows] if rows in odd else 0.9 + 0.2 * rows + 0.35 * (rows % 4 != 0))


COSTS: dict[str, Cost] = {"flat": flat, "linear": linear, "stepped": stepped, "non-monotone": non_monotone}


@cache
def expected_tokens(alpha: float, depth: int) -> float:
    return math.fsum(alpha**i for i in range(depth + 1))


@dataclass(frozen=True)
class Regime:
    """One combination of machine and text; `alpha(step)` and `slowness(step)` may change over the run."""

    cost: Cost
    alpha: Alpha
    draft_token_s: float = 0.1 * PLAIN_S
    noise: float = 0.05
    outliers: float = 0.02
    """Share of passes that take 3 to 10 times as long."""
    rebuild_s: float = 0.1 * PLAIN_S
    """What the first pass after a change of size costs besides."""
    slowness: Callable[[int], float] = field(default=lambda token: 1.0)

    def rate(self, depth: int, token: int) -> float:
        """Tokens a second at `depth`, in expectation."""
        tokens = expected_tokens(self.alpha(token), depth)
        seconds = depth * self.draft_token_s + self.cost(depth + 1)
        return tokens / seconds / self.slowness(token)


class Controller(Protocol):
    def next(self) -> int: ...

    def record(self, depth: int, accepted: int, tested: int, draft_s: float, verify_s: float) -> None: ...


@dataclass(frozen=True)
class Fixed:
    """The naive controller."""

    depth: int

    def next(self) -> int:
        return self.depth

    def record(self, depth: int, accepted: int, tested: int, draft_s: float, verify_s: float) -> None:
        """Learns nothing."""


class StraightLine:
    """Knows α exactly and believes that n rows cost what one does, plus a line through two measured points."""

    def __init__(self, regime: Regime) -> None:
        slope = regime.cost(2) - regime.cost(1)

        def rate(depth: int) -> float:
            tokens = sum(regime.alpha(0) ** i for i in range(depth + 1))
            return tokens / (depth * regime.draft_token_s + regime.cost(1) + slope * depth)

        self._depth = max(DEPTHS, key=rate)

    def next(self) -> int:
        return self._depth

    def record(self, depth: int, accepted: int, tested: int, draft_s: float, verify_s: float) -> None:
        """Learns nothing more."""


@dataclass
class Run:
    """Seconds spent and tokens written; each token's own seconds, in order; steps by depth."""

    seconds: float = 0.0
    at: list[float] = field(default_factory=list)
    depths: dict[int, int] = field(default_factory=dict)
    switches: int = 0

    def between(self, first: int, last: int) -> float:
        """Seconds spent on tokens `first` … `last` − 1."""
        return self.at[min(last, len(self.at)) - 1] - (self.at[first - 1] if first else 0.0)


def simulate(regime: Regime, controller: Controller, tokens: int, seed: int) -> Run:
    """Write `tokens` tokens. α belongs to the text, so it depends on the token and not on the step.

    The controller sees noisy times. The run is charged what they are without noise, which falls on all alike.
    """
    rng, run = random.Random(seed), Run()
    depth_before = 0
    while len(run.at) < tokens:
        depth = controller.next()
        accepted, tested = outcome(regime, len(run.at), depth, rng)
        slow = regime.slowness(len(run.at))
        draft_s = depth * regime.draft_token_s * slow
        verify_s = (regime.cost(depth + 1) + (regime.rebuild_s if depth != depth_before else 0)) * slow
        controller.record(depth, accepted, tested, draft_s * noise(regime, rng), verify_s * noise(regime, rng))
        run.switches += depth != depth_before
        depth_before = depth
        run.seconds += draft_s + verify_s
        run.at += [run.seconds] * (accepted + 1)
        run.depths[depth] = run.depths.get(depth, 0) + 1
    return run


def outcome(regime: Regime, token: int, depth: int, rng: random.Random) -> tuple[int, int]:
    """Accepted and tested tokens of a draft."""
    for i in range(depth):
        if rng.random() >= regime.alpha(token + i):
            return i, i + 1
    return depth, depth


def noise(regime: Regime, rng: random.Random) -> float:
    late = rng.uniform(3, 10) if rng.random() < regime.outliers else 1.0
    return rng.lognormvariate(0, regime.noise) * late


def fixed_seconds(regime: Regime, depth: int, tokens: int) -> float:
    """Expected seconds at one fixed depth."""
    return math.fsum(1 / regime.rate(depth, token) for token in range(tokens))


@cache
def best_fixed_seconds(regime: Regime, tokens: int) -> float:
    """The best fixed depth in hindsight."""
    return min(fixed_seconds(regime, d, tokens) for d in DEPTHS)


def oracle_seconds(regime: Regime, tokens: int, first: int = 0) -> float:
    """The best depth at every token, known in advance."""
    return math.fsum(1 / max(regime.rate(d, token) for d in DEPTHS) for token in range(first, tokens))


TOKENS = 2000
SEEDS = (1, 2)


def constant(alpha: float) -> Alpha:
    return lambda token: alpha


def drifting(token: int) -> float:
    return 0.5 + 0.4 * math.sin(token / 300)


def switching(token: int) -> float:
    return 0.9 if token % 1000 < 500 else 0.3


def regimes() -> dict[str, Regime]:
    """Every cost curve with constant α, and the changes."""
    table = {f"{name}, α {alpha}": Regime(cost, constant(alpha)) for name, cost in COSTS.items() for alpha in ALPHAS}
    for name, cost in COSTS.items():
        table[f"{name}, drifting"] = Regime(cost, drifting)
        table[f"{name}, switching"] = Regime(cost, switching)
    table["non-monotone, heavy tail"] = Regime(non_monotone, constant(0.7), noise=0.2, outliers=0.1)
    table["stepped, 3 × slower"] = Regime(stepped, constant(0.7), slowness=lambda t: 3.0 if t >= 1000 else 1.0)
    table["linear, α 0.1, 3 × slower"] = Regime(linear, constant(0.1), slowness=lambda t: 3.0 if t >= 1000 else 1.0)
    table["non-monotone, dear rebuild"] = Regime(non_monotone, constant(0.7), rebuild_s=PLAIN_S)
    table["flat, free drafts"] = Regime(flat, constant(0.9), draft_token_s=1e-6)
    table["linear, α 0.1, free drafts"] = Regime(linear, constant(0.1), draft_token_s=1e-6)
    return table


ALPHAS = (0.05, 0.3, 0.6, 0.8, 0.95)


def ratios(regime: Regime, make: Callable[[], Controller], seeds: tuple[int, ...] = SEEDS) -> tuple[float, ...]:
    """Speed over the best fixed depth, over plain, and over the oracle; mean over the seeds."""
    seconds = math.fsum(simulate(regime, make(), TOKENS, seed).seconds for seed in seeds) / len(seeds)
    plain = fixed_seconds(regime, 0, TOKENS)
    return best_fixed_seconds(regime, TOKENS) / seconds, plain / seconds, oracle_seconds(regime, TOKENS) / seconds


@dataclass(frozen=True)
class Text:
    """What several drafters make of a text: a free one that copies, and a model-based one."""

    cost: Cost
    offered: float
    """Share of steps in which the free drafter has an offer."""
    copied: float
    """α of its offers with a long match; those with a short one are as good as noise, α 0.1."""
    modelled: float
    """α of the model-based drafter."""
    model_token_s: float = 0.1 * PLAIN_S
    sync_token_s: float = 0.02 * PLAIN_S
    noise: float = 0.05
    outliers: float = 0.02


Chooser = Callable[[Mapping[str, Offer]], Choice]
Recorder = Callable[[Choice, int, int, float, float], None]


def simulate_arms(text: Text, choose: Chooser, record: Recorder, tokens: int, seed: int) -> float:
    """Seconds to write `tokens` tokens, without the noise that `record` is shown."""
    rng, written, seconds, behind = random.Random(seed), 0, 0.0, 0
    while written < tokens:
        offers = {"suffix": Offer(rng.choice((3, 7, 20)), rng.choice((1, 8)))} if rng.random() < text.offered else {}
        choice = choose(offers)
        alpha = (
            text.modelled if choice.arm == "draft" else text.copied if offers and offers["suffix"].match > 1 else 0.1
        )
        accepted = 0
        while accepted < choice.depth and rng.random() < alpha:
            accepted += 1
        draft_s = choice.depth * text.model_token_s + behind * text.sync_token_s if choice.arm == "draft" else 1e-5
        behind = 0 if choice.arm == "draft" else behind + accepted + 1
        verify_s = text.cost(choice.depth + 1)
        noisy = [s * rng.lognormvariate(0, text.noise) for s in (draft_s, verify_s)]
        late = rng.uniform(3, 10) if rng.random() < text.outliers else 1.0
        record(choice, min(accepted + 1, choice.depth), accepted, noisy[0], noisy[1] * late)
        seconds += draft_s + verify_s
        written += accepted + 1
    return seconds


def arms_seconds(text: Text, tokens: int, seed: int) -> float:
    """Seconds that `Arms` needs."""
    arms = Arms(("suffix",), ("draft",))
    return simulate_arms(text, arms.choose, arms.record, tokens, seed)


def fixed_arms_seconds(text: Text, tokens: int, seed: int, *, mixed: bool = False) -> dict[str, float]:
    """Seconds of fixed policies: one drafter at one depth.

    With `mixed` also those that know which offers are good, and use the model where there is none.
    """

    def policy(match: int, copy: int, model: int) -> Chooser:
        def choose(offers: Mapping[str, Offer]) -> Choice:
            offer = offers.get("suffix")
            if offer is not None and copy and offer.match >= match:
                return Choice("suffix", min(copy, offer.length), Why.OFFER, offer.strength)
            return Choice("draft" if model else "none", model, Why.MODEL)

        return choose

    policies = {
        f"copy {copy} from match {match}, model {model}": policy(match, copy, model)
        for match in (1, 8)
        for copy in (0, 3, 7, 15)
        for model in (0, 1, 3, 5)
        if mixed or (match == 1 and not (copy and model))
    }
    return {name: simulate_arms(text, p, lambda *_: None, tokens, seed) for name, p in policies.items()}


TEXTS = {
    "copying pays": Text(stepped, offered=0.5, copied=0.95, modelled=0.3),
    "the model pays": Text(stepped, offered=0.3, copied=0.2, modelled=0.85),
    "both pay": Text(non_monotone, offered=0.4, copied=0.95, modelled=0.8),
    "neither pays": Text(linear, offered=0.4, copied=0.2, modelled=0.2),
    "flat, both pay": Text(flat, offered=0.3, copied=0.9, modelled=0.7),
}


def main() -> None:
    out = sys.stdout
    out.write(f"{'regime':34}{'÷ best fixed':>14}{'÷ plain':>10}{'÷ oracle':>10}  depths (seed 1)\n")
    shares = []
    for name, regime in regimes().items():
        fixed, plain, oracle = ratios(regime, DepthController)
        shares.append(fixed)
        run = simulate(regime, DepthController(), TOKENS, SEEDS[0])
        top = sorted(run.depths.items(), key=lambda item: -item[1])[:6]
        out.write(f"{name:34}{fixed:14.3f}{plain:10.3f}{oracle:10.3f}  {dict(top)} {run.switches} switches\n")
        out.flush()
    out.write(f"{'mean':34}{math.fsum(shares) / len(shares):14.3f}{'':20}  lowest {min(shares):.3f}\n")
    out.write(f"\n{'text':34}{'÷ best fixed':>14}{'÷ best mixed':>14}{'÷ plain':>10}  best fixed; best mixed\n")
    for name, text in TEXTS.items():
        fixed_s, mixed_s = (fixed_arms_seconds(text, TOKENS, 1, mixed=mixed) for mixed in (False, True))
        best, best_mixed = (min(policy, key=policy.__getitem__) for policy in (fixed_s, mixed_s))
        seconds = arms_seconds(text, TOKENS, 1)
        figures = [s / seconds for s in (fixed_s[best], mixed_s[best_mixed], fixed_s["copy 0 from match 1, model 0"])]
        out.write(f"{name:34}{figures[0]:14.3f}{figures[1]:14.3f}{figures[2]:10.3f}  {best}; {best_mixed}\n")


if __name__ == "__main__":
    main()
