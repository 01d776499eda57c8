"""Whether drafted text is distributed as plain text is: two samples and a chi-square test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from specchat.bench.audit.contestants import NOBODY, Onlooker, Unavailable, ask, contestant
from specchat.bench.entrants import Model
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.engine.settings import AnswerSettings
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

TOKENS = 5
"""The first is always plain; of the others as many may be drafted in one step as the audit drafts."""
_SAMPLING = SamplingParams(0.8)
_LEAST_IN_CELL = 12
_RARE_CELLS = 8
PROMPT = "Tell me something about the sea."


@dataclass(frozen=True, slots=True)
class Statistics:
    """The outcome of the test; `p_value` is None where nothing was drafted."""

    method: Method
    samples: int
    """On each side."""
    drafted: int
    accepted: int
    chi_square: float
    freedom: int
    p_value: float | None


def compare_pairs(
    model: Model, methods: Sequence[Method], samples: int, onlooker: Onlooker = NOBODY
) -> Statistics | Unavailable:
    """Sample short answers with the first of `methods` that the model has, and without; compare their token pairs.

    The seeds are fixed, so that the same build gives the same p-value. Raises AuditCancelled.
    """
    missing = Unavailable(Method.NONE, "no method was asked for.")
    for method in methods:
        with contestant(model, method) as session:
            if isinstance(session, Unavailable):
                missing = session
                continue
            plain, drafted = list[tuple[int, ...]](), list[tuple[int, ...]]()
            tested = accepted = proposed = 0
            for i in range(samples):
                onlooker.hear(f"statistics, {method}: sample {i + 1} of {samples}")
                plain.append(_sample(session, 2 * i, onlooker, speculate=False)[0])
                ids, (more, kept, looked_at) = _sample(session, 2 * i + 1, onlooker, speculate=True)
                drafted.append(ids)
                proposed, accepted, tested = proposed + more, accepted + kept, tested + looked_at
            chi_square, freedom = homogeneity([ids[1:3] for ids in plain], [ids[1:3] for ids in drafted])
            p_value = survival(chi_square, freedom) if tested else None
            return Statistics(method, samples, proposed, accepted, chi_square, freedom, p_value)
    return missing


def _sample(
    session: Session, seed: int, onlooker: Onlooker, *, speculate: bool
) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    settings = AnswerSettings(_SAMPLING, AcceptanceMode.EXACT, seed, max_tokens=TOKENS, speculate=speculate)
    answer = ask(session, PROMPT, settings, onlooker, fresh=False)
    figures = answer.metrics
    return tuple(answer.token_ids), (figures.drafted, figures.accepted, figures.tested)


def homogeneity(one: Sequence[Hashable], two: Sequence[Hashable]) -> tuple[float, int]:
    """Pearson's X² of two samples of equal size for having one law, and its degrees of freedom.

    What occurs seldom shares a few cells, so that each is expected to hold several of either sample.
    """
    total = Counter(one) + Counter(two)
    rare = sorted((value for value, count in total.items() if count < _LEAST_IN_CELL), key=repr)
    cell_of = {value: f"rare {i % _RARE_CELLS}" for i, value in enumerate(rare)}
    counts = [Counter(cell_of.get(value, value) for value in sample) for sample in (one, two)]
    chi_square, cells = 0.0, counts[0].keys() | counts[1].keys()
    for cell in cells:
        a, b = counts[0][cell], counts[1][cell]
        chi_square += (a - b) ** 2 / (a + b)
    return chi_square, len(cells) - 1


def survival(chi_square: float, freedom: int) -> float:
    """P(X² > `chi_square`) by the cube-root approximation of Wilson and Hilferty (1931), 1 without freedom."""
    if freedom < 1:
        return 1.0
    spread = 2 / (9 * freedom)
    return 1 - NormalDist(1 - spread, spread**0.5).cdf((chi_square / freedom) ** (1 / 3))
