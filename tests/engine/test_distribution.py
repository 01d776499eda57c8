"""On a real (tiny, random) model at temperature 1: token triples of speculation are distributed as the exact p."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from specchat.speculation.distribution import warp
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from tests.speculation.chi_square import excess
from tests.tiny_model import write_model

PROMPT = [1, 262, 270, 265]
PARAMS = SamplingParams(temperature=1.0, top_k=4, top_p=1.0, min_p=0.0, repeat_penalty=1.3)
SAMPLES = 3000
Triple = tuple[int, ...]


def exact_law(engine: Engine) -> dict[Triple, float]:
    """The probability of each triple after PROMPT, from single-token passes."""
    law: dict[Triple, float] = {(): 1.0}
    for _ in range(3):
        longer: dict[Triple, float] = {}
        for prefix, mass in law.items():
            history = [*PROMPT, *prefix]
            engine.target.clear()
            engine.target.prefill(history[:-1])
            p = warp(engine.target.decode(history[-1:])[0], history, PARAMS)
            assert p.ids is not None
            for token, probability in zip(p.ids, p.probs, strict=True):
                longer[(*prefix, int(token))] = mass * float(probability)
        law = longer
    return law


def sample(engine: Engine, mode: AcceptanceMode) -> tuple[Counter[Triple], float]:
    counts: Counter[Triple] = Counter()
    accepted = tested = 0
    for seed in range(SAMPLES):
        answer = engine.answer(PROMPT, AnswerSettings(PARAMS, mode, seed=seed, max_tokens=3))
        for _ in answer:
            pass
        counts[tuple(answer.token_ids)] += 1
        accepted += answer.metrics.accepted
        tested += answer.metrics.tested
    return counts, accepted / tested if tested else 0.0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target and a draft that is half right: the same first layer, another second one."""
    folder = tmp_path_factory.mktemp("pair")
    target = write_model(folder / "target.gguf", seed=1, spread=0.25)
    return target, write_model(folder / "draft.gguf", layers=1, seed=1, spread=0.25)


@pytest.mark.parametrize("mode", [None, AcceptanceMode.EXACT, AcceptanceMode.BLOCK, AcceptanceMode.COUPLED])
def test_triples_have_the_targets_law(pair: tuple[Path, Path], mode: AcceptanceMode | None) -> None:
    target, draft = pair
    method = Method.NONE if mode is None else Method.DRAFT
    engine = Engine(EngineSettings(target, draft, method, draft_tokens=2, context=64, threads=1))
    law = exact_law(engine)
    assert sum(law.values()) == pytest.approx(1)
    counts, alpha = sample(engine, mode or AcceptanceMode.EXACT)
    engine.close()
    triples = sorted(law)
    assert set(counts) <= set(triples) or any(len(triple) < 3 for triple in counts)
    assert excess([counts[t] for t in triples], [law[t] for t in triples]) < 3.5
    if mode is not None:
        assert 0.05 < alpha < 0.95


def test_the_test_sees_a_wrong_law(pair: tuple[Path, Path]) -> None:
    """The draft's own text, taken for the target's, is caught."""
    target, draft = pair
    engine = Engine(EngineSettings(target, method=Method.NONE, context=64, threads=1))
    law = exact_law(engine)
    engine.close()
    wrong = Engine(EngineSettings(draft, method=Method.NONE, context=64, threads=1))
    counts, _ = sample(wrong, AcceptanceMode.EXACT)
    wrong.close()
    triples = sorted(law)
    hits = np.array([counts[t] for t in triples])
    assert hits.sum() < SAMPLES or excess(hits, [law[t] for t in triples]) > 10
