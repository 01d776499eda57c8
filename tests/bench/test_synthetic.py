"""The oracle: acceptance as told, the text as it would be without, at any temperature."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from specchat.bench.entrants import Arm, Model, Ours, enter
from specchat.bench.synthetic import OracleDrafter
from specchat.chat.message import Message, Role
from specchat.chat.session import Session
from specchat.drafters.method import Method
from specchat.speculation.acceptance import acceptance_rule
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams
from specchat.speculation.sampler import Sampler
from specchat.speculation.theory import expected_tokens
from tests.tiny_model import write_model

QUESTION = (Message(Role.USER, "abc"),)
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("oracle") / "chat.gguf", template=TEMPLATE)


def opened(model: Path, folder: Path, alpha: float, depth: int) -> Session:
    return enter(Model(str(model), threads=1), Arm(Method.PROMPT_LOOKUP, depth, alpha), folder)


@pytest.fixture(params=[0.0, 0.9])
def temperature(request: pytest.FixtureRequest) -> float:
    return float(request.param)


def test_its_acceptance_and_tokens_a_step_are_those_of_theory(model: Path, tmp_path: Path, temperature: float) -> None:
    alpha, depth = 0.7, 3
    session = opened(model, tmp_path, alpha, depth)
    try:
        ours = Ours(Arm(Method.PROMPT_LOOKUP, depth, alpha), session)
        figures = [ours.answer(QUESTION, temperature, 250) for _ in range(4)]
    finally:
        session.close()
    tested = sum(f.tested for f in figures)
    assert tested > 400
    accepted = sum(f.accepted for f in figures)
    assert abs(accepted / tested - alpha) < 4 * math.sqrt(alpha * (1 - alpha) / tested)
    # Only steps that drafted in full: some are plain, for the rate of plain decoding to be known.
    full = sum(f.depths.get(depth, 0) for f in figures)
    tokens = sum(f.tokens for f in figures) - sum(n for f in figures for d, n in f.depths.items() if d == 0)
    assert abs(tokens / full / expected_tokens(alpha, depth) - 1) < 0.1


def test_an_oracle_that_never_errs_is_always_right_and_one_that_always_does_never(model: Path, tmp_path: Path) -> None:
    for alpha in (0.0, 1.0):
        session = opened(model, tmp_path, alpha, 3)
        try:
            figures = Ours(Arm(Method.PROMPT_LOOKUP, 3, alpha), session).answer(QUESTION, 0.9, 60)
        finally:
            session.close()
        assert figures.tested > 10
        assert figures.accepted == (figures.tested if alpha else 0)


def test_what_it_proposes_changes_no_token(model: Path, tmp_path: Path, temperature: float) -> None:
    texts = list[list[int]]()
    for alpha in (0.0, 0.5, 1.0):
        session = opened(model, tmp_path, alpha, 4)
        try:
            ours = Ours(Arm(Method.PROMPT_LOOKUP, 4, alpha), session)
            ours.answer(QUESTION, temperature, 40)
            texts.append(list(ours.session.engine.target.tokens))
            known = ours._texts[QUESTION, temperature, 40]
        finally:
            session.close()
        # The cache holds all but the last token.
        assert texts[-1] == known[:-1]
    assert texts[0] == texts[1] == texts[2]


def test_it_follows_the_text_through_begin_propose_and_commit() -> None:
    text = list(range(100, 160))
    sampler = Sampler(SamplingParams(0.0), acceptance_rule(AcceptanceMode.EXACT, None, 0))
    oracle = OracleDrafter(1.0, 1000)
    oracle.text = text
    oracle.begin(text[:10], sampler)
    assert list(oracle.propose(4).ids) == text[10:14]
    oracle.begin(text[:57], sampler)
    assert list(oracle.propose(9).ids) == text[57:]
    oracle.begin(text, sampler)
    assert len(oracle.propose(9)) == 0


def test_it_errs_as_often_at_every_position() -> None:
    text = list(range(1, 4001))
    sampler = Sampler(SamplingParams(0.0), acceptance_rule(AcceptanceMode.EXACT, None, 0))
    oracle = OracleDrafter(0.6, 5000, seed=1)
    oracle.text = text
    right = list[list[bool]]()
    for start in range(0, 4000, 4):
        oracle.begin(text[:start], sampler)
        right.append([a == b for a, b in zip(oracle.propose(4).ids, text[start : start + 4], strict=True)])
    rates = np.array(right).mean(axis=0)
    assert np.all(np.abs(rates - 0.6) < 4 * math.sqrt(0.24 / 1000))
    # Independence: neighbours err together no more often than chance has it.
    assert abs(float(np.corrcoef(np.array(right)[:, 0], np.array(right)[:, 1])[0, 1])) < 0.12


def test_a_rate_out_of_range_is_refused() -> None:
    for alpha in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            OracleDrafter(alpha, 10)
