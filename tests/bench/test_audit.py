"""The audit finds what it is for: a rule that is a little wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specchat.bench.audit.contestants import Setup
from specchat.bench.audit.statistics import Statistics, compare_pairs, homogeneity, survival
from specchat.bench.audit.verdict import Audit, Extent, audit
from specchat.cli.audit import lines
from specchat.drafters.method import Method
from specchat.speculation.acceptance import Coupled, Exact
from tests.tiny_model import write_model

SMALL = Extent(prompts=1, tokens=20, seeds=1, samples=12, positions=12)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    """A random model and one much like it, which drafts."""
    folder = tmp_path_factory.mktemp("pair")
    target = write_model(folder / "target.gguf", seed=0)
    return Setup(str(target), str(write_model(folder / "draft.gguf", seed=0, spread=0.5)))


def run(pair: Setup, extent: Extent = SMALL) -> Audit:
    return audit(pair, extent, [Method.DRAFT, Method.SUFFIX])


def test_an_exact_program_passes(pair: Setup) -> None:
    found = run(pair)
    assert found.exact, found.violations
    assert found.verdict.startswith("Exact: 2 methods wrote the same")
    assert found.greedy[0].drafted
    assert found.numerics.identical
    table = "\n".join(lines(found))
    assert "draft          same           same" in table
    assert found.to_dict()["exact"] is True


def test_a_rule_that_always_accepts_is_found(pair: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    for rule in (Exact, Coupled):
        monkeypatch.setattr(rule, "_replacement", lambda *_: None)
    found = run(pair)
    assert not found.exact
    wrong = {row.method for row in found.greedy for fork in row.forks if found.violates(fork)}
    assert Method.DRAFT in wrong
    assert any(found.violates(fork) for row in found.coupled for fork in row.forks)
    assert found.verdict.startswith("NOT EXACT: greedy draft: prompt 1, token ")
    assert "WRONG" in "\n".join(lines(found))


def test_a_rule_that_forgets_the_residual_is_found_by_its_statistics(
    pair: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rejected is replaced by the target's most likely token: right when greedy, wrong at T > 0."""
    rightly = Exact._replacement

    def argmax(self: Exact, p: object, q: object, token: int, position: int) -> int | None:
        return None if rightly(self, p, q, token, position) is None else p.argmax()  # type: ignore[arg-type, attr-defined]

    monkeypatch.setattr(Exact, "_replacement", argmax)
    often_wrong = Setup(pair.model, str(write_model(tmp_path / "other.gguf", seed=1)))
    found = compare_pairs(often_wrong, [Method.DRAFT], 100)
    assert isinstance(found, Statistics)
    assert found.p_value is not None
    assert found.p_value < 1e-4


def test_a_model_without_a_draft_says_which_methods_it_has_not(pair: Setup) -> None:
    found = audit(Setup(pair.model), SMALL, [Method.DRAFT, Method.SUFFIX])
    assert [gone.method for gone in found.unavailable] == [Method.DRAFT]
    assert found.exact


def test_equal_laws_give_any_p_value_and_different_ones_a_small_one() -> None:
    rng = np.random.default_rng(3)
    law, other = [0.4, 0.3, 0.2, 0.05, 0.05], [0.2, 0.4, 0.3, 0.05, 0.05]

    def p_value(second: list[float]) -> float:
        one, two = (rng.choice(5, 400, p=p).tolist() for p in (law, second))
        return survival(*homogeneity(one, two))

    equal = sorted(p_value(law) for _ in range(60))
    assert 0.3 < float(np.median(equal)) < 0.7
    assert equal[0] > 1e-4
    assert all(p_value(other) < 1e-3 for _ in range(10))


def test_what_is_seen_once_does_not_make_a_difference() -> None:
    one, two = ([f"{side}{i}" for i in range(300)] for side in "ab")
    assert survival(*homogeneity([*one, *"x" * 50], [*two, *"x" * 50])) > 1e-4
    assert survival(0.0, 0) == 1.0
