"""The audit finds what it is for: a rule that is a little wrong."""

from __future__ import annotations

import signal
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from specchat.bench.audit import contestants
from specchat.bench.audit.contestants import Unavailable
from specchat.bench.audit.identity import Compared
from specchat.bench.audit.numerics import Numerics
from specchat.bench.audit.statistics import Statistics, compare_pairs, homogeneity, survival
from specchat.bench.audit.verdict import Audit, Extent, audit
from specchat.bench.entrants import Model
from specchat.catalogue.entries import Catalogue
from specchat.chat.models import Models
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.cli.audit import audit_model, lines
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.drafters.method import Method
from specchat.llama.errors import DoesNotFit
from specchat.retrieval.errors import DatastoreError
from specchat.speculation.acceptance import Coupled, Exact
from tests.tiny_model import write_model

SMALL = Extent(prompts=1, tokens=20, seeds=1, samples=12, positions=12)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A random model and one much like it, which drafts."""
    folder = tmp_path_factory.mktemp("pair")
    target = write_model(folder / "target.gguf", seed=0)
    return Model(str(target), str(write_model(folder / "draft.gguf", seed=0, spread=0.5)))


@pytest.fixture
def most_open(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sessions were open, after each opening."""
    now, counts, close = [0], list[int](), Session.close

    def opened(request: ModelRequest) -> Session:
        session = open_session(request)
        now[0] += 1
        counts.append(now[0])
        return session

    def closed(self: Session) -> None:
        now[0] -= 1
        close(self)

    monkeypatch.setattr(contestants, "open_session", opened)
    monkeypatch.setattr(Session, "close", closed)
    return counts


def run(pair: Model, extent: Extent = SMALL) -> Audit:
    return audit(pair, extent, [Method.DRAFT, Method.SUFFIX, Method.LOOKAHEAD])


def command(model: Model, method: Method, err: BytesIO | None = None) -> tuple[ExitCode, str, str]:
    out, err = BytesIO(), err or BytesIO()
    environment = Environment(None, out, err, False, False, False, {})
    code = audit_model(environment, model, methods=(method,), quick=True, as_object=False)
    return code, out.getvalue().decode(), err.getvalue().decode()


def test_an_exact_program_passes(pair: Model) -> None:
    found = run(pair)
    assert found.exact, found.violations
    assert found.verdict.startswith("Exact: 2 methods wrote the same")
    assert found.greedy[0].drafted
    assert found.numerics.identical
    table = "\n".join(lines(found))
    assert "draft          same             same" in table
    assert "suffix         nothing drafted  nothing drafted" in table, "a random text repeats nothing"
    assert found.to_dict()["exact"] is True


def test_a_rule_that_always_accepts_is_found(
    pair: Model, monkeypatch: pytest.MonkeyPatch, most_open: list[int]
) -> None:
    for rule in (Exact, Coupled):
        monkeypatch.setattr(rule, "_replacement", lambda *_: None)
    found = run(pair)
    assert not found.exact
    wrong = {row.method for row in found.greedy for fork in row.forks if found.violates(fork)}
    assert Method.DRAFT in wrong
    assert any(found.violates(fork) for row in found.coupled for fork in row.forks)
    assert found.verdict.startswith("NOT EXACT: greedy draft: prompt 1, token ")
    assert "WRONG" in "\n".join(lines(found))
    assert set(most_open) == {1}, "two copies of a large model don't fit a card"


def test_a_rule_that_forgets_the_residual_is_found_by_its_statistics(
    pair: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is rejected is replaced by the target's most likely token: right when greedy, wrong at T > 0."""
    rightly = Exact._replacement

    def argmax(self: Exact, p: object, q: object, token: int, position: int) -> int | None:
        return None if rightly(self, p, q, token, position) is None else p.argmax()  # type: ignore[arg-type, attr-defined]

    monkeypatch.setattr(Exact, "_replacement", argmax)
    often_wrong = Model(pair.model, str(write_model(tmp_path / "other.gguf", seed=1)))
    found = compare_pairs(often_wrong, [Method.DRAFT], 100)
    assert isinstance(found, Statistics)
    assert found.p_value is not None
    assert found.p_value < 1e-4


@pytest.mark.parametrize(("draft", "reason"), [(None, "no draft model of its own"), ("none", "--draft none forbids")])
def test_a_model_without_a_draft_says_which_methods_it_has_not(pair: Model, draft: str | None, reason: str) -> None:
    found = audit(Model(pair.model, draft), SMALL, [Method.DRAFT, Method.LOOKAHEAD])
    assert [gone.method for gone in found.unavailable] == [Method.DRAFT]
    assert reason in found.unavailable[0].reason
    assert found.exact
    assert found.verdict.startswith("Exact: 1 method wrote the same")


def test_a_method_without_its_datastore_is_not_here(pair: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_store(_request: ModelRequest) -> Session:
        raise DatastoreError("It is damaged.")

    monkeypatch.setattr(contestants, "open_session", no_store)
    with contestants.contestant(pair, Method.REST) as there:
        assert there == Unavailable(Method.REST, "It is damaged.")


def test_a_method_that_drops_out_on_the_way_is_said(pair: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[Method | None]()

    def fuller_and_fuller(request: ModelRequest) -> Session:
        opened.append(request.method)
        if opened.count(Method.DRAFT) > 1:
            raise DoesNotFit("The card is full.")
        return open_session(request)

    monkeypatch.setattr(contestants, "open_session", fuller_and_fuller)
    found = audit(pair, SMALL, [Method.DRAFT])
    table = "\n".join(lines(found))
    assert "draft          same             dropped out" in table
    assert "draft          dropped out: The card is full." in table
    assert found.exact


def test_the_default_model_is_chosen_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that an open session takes must not bring another model into the comparison."""
    folder = tmp_path / "specchat"
    folder.mkdir()
    paths = [write_model(tmp_path / f"{name}.gguf", seed=seed) for seed, name in enumerate(("large", "little"))]
    tables = [f'[{path.stem}]\nname = "{path.stem}"\ntarget = {{ path = "{path}" }}\n' for path in paths]
    (folder / "models.toml").write_text("\n".join(tables))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    defaults, closed = iter(("large", *["little"] * 9)), list[Models]()
    monkeypatch.setattr(Models, "default", lambda _self: Catalogue().find(next(defaults)))
    monkeypatch.setattr(Models, "close", lambda self: closed.append(self))
    found = audit(Model(None), SMALL, [Method.LOOKAHEAD])
    assert found.model == "large"
    assert found.exact, found.violations
    assert next(defaults) == "little"
    closed.clear()
    Model(None).settled()
    assert len(closed) == 1, "the process that judged what fits holds memory of a card"


def test_where_nothing_was_drafted_nothing_is_proved(pair: Model) -> None:
    code, out, _ = command(Model(pair.model), Method.DRAFT)
    assert code == ExitCode.ENGINE
    assert out.splitlines()[-1].startswith("Nothing was compared: draft: target.gguf has no draft model of its own")


def test_only_what_drafted_counts() -> None:
    ground, gone = Numerics(4, 0.0, {}), Unavailable(Method.NONE, "")

    def found(*greedy: Compared) -> Audit:
        return Audit("m", list(greedy), [], [], gone, ground)

    silent, busy = Compared(Method.REST, tokens=30, note="No text."), Compared(Method.SUFFIX, tokens=20, drafted=3)
    assert found(silent, busy).verdict == "Exact: 1 method wrote the same 20 tokens as plain decoding."
    assert "rest           nothing drafted " in "\n".join(lines(found(silent, busy)))
    assert found(silent).verdict == "Nothing was compared: rest: No text."
    assert not found(silent).exact
    assert not found().exact


def test_ctrl_c_ends_it_with_a_sentence(pair: Model) -> None:
    class Impatient(BytesIO):
        """Who reads it interrupts at the first word."""

        def write(self, data: bytes) -> int:  # type: ignore[override]
            if b"numerics" in data:
                signal.raise_signal(signal.SIGINT)
            return super().write(data)

    before = signal.getsignal(signal.SIGINT)
    code, out, err = command(pair, Method.DRAFT, Impatient())
    assert (code, out) == (ExitCode.INTERRUPTED, "")
    assert err.splitlines()[1:] == ["specchat: The audit was stopped before its end, so there is no verdict."]
    assert signal.getsignal(signal.SIGINT) is before


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
