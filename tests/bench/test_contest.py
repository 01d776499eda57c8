"""`specchat bench` on a small random model: who answers, in what order, with which caches, and what is printed."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from specchat.bench import heat as heats
from specchat.bench.contest import arms_of, contest, oracles
from specchat.bench.entrants import PLAIN, Arm, Entrant, Figures, Model, Ours, enter
from specchat.bench.extent import Extent
from specchat.bench.prompts import BENCH_CLASSES, PROMPTS
from specchat.bench.results import Contest
from specchat.bench.summary import summarise
from specchat.chat.message import Message, Role
from specchat.chat.session import Session
from specchat.cli.bench import Choices, bench_model, laid_out
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.drafters.costs import costs_directory
from specchat.drafters.method import Method
from specchat.llama.errors import DoesNotFit, LlamaError
from tests.bench.contests import small_contest
from tests.tiny_model import write_model

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
TINY = Extent(kinds=("prose", "multi-turn"), temperatures=(0.0, 0.9), rounds=2, tokens=12, cycles=1, largest_pass=4)
METHODS = [Method.SUFFIX, Method.PROMPT_LOOKUP, Method.AUTO]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    path = write_model(
        tmp_path_factory.mktemp("contest") / "chat.gguf", template=TEMPLATE, extra={"context_length": 2048}
    )
    return Model(str(path), threads=1)


@pytest.fixture(scope="module")
def held(model: Model) -> Contest:
    return contest(model, TINY, arms_of(METHODS))


def order(found: Contest) -> list[str]:
    return [sample.label for sample in found.samples]


def test_everyone_answers_every_class_and_temperature_as_often(held: Contest) -> None:
    assert held.labels == ["none", "suffix k=7", "prompt-lookup k=7", "auto"]
    cells = {(s.label, s.kind, s.temperature, s.round) for s in held.samples}
    assert len(cells) == len(held.samples) == 4 * 2 * 2 * 2
    assert held.complete
    assert all(s.figures.tokens == 11 and s.figures.seconds > 0 for s in held.samples)


def test_they_take_turns_and_the_order_turns_around(held: Contest) -> None:
    first, second = order(held)[:4], order(held)[4:8]
    assert first == held.labels
    assert second == held.labels[::-1]


def test_plain_decoding_goes_through_the_same_loop_one_token_a_step(held: Contest, model: Model) -> None:
    plain = [s.figures for s in held.samples if s.label == PLAIN.label]
    assert all(f.depths == {0: f.steps} and f.steps == f.tokens and f.drafted == 0 for f in plain)
    # On a random model nothing repeats; the oracle always drafts.
    found = contest(model, replace(TINY, rounds=1), oracles(0.6, [3]))
    drafting = [s.figures for s in found.samples if s.label == "oracle 0.6 k=3"]
    assert all(f.drafted > 0 for f in drafting)
    assert sum(f.accepted for f in drafting) > 0
    assert all(f.steps + f.accepted == f.tokens for f in drafting)
    assert all(f.steps < f.tokens for f in drafting if f.accepted)


def test_passes_are_measured_at_every_depth_in_use(held: Contest) -> None:
    assert held.passes is not None
    assert {1, 2, 4, 8} <= set(held.passes.seconds)
    assert all(0 < low <= median <= high for median, low, high in held.passes.seconds.values())


def test_no_answer_finds_its_prompt_in_a_cache(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    reused = list[int]()
    rightly = Session.ask

    def watched(self: Session, *args: object, **kwargs: object) -> object:
        reused.append(len(self.engine.target.tokens))
        return rightly(self, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "ask", watched)
    contest(model, replace(TINY, rounds=1), arms_of([Method.SUFFIX]))
    assert len(reused) > 8
    assert set(reused) == {0}


def test_the_users_measured_costs_are_neither_used_nor_touched(model: Model, tmp_path: Path) -> None:
    costs_directory().mkdir(parents=True, exist_ok=True)
    own = costs_directory()
    before = sorted(own.iterdir())
    session = enter(model, Arm(Method.AUTO), tmp_path)
    try:
        assert costs_directory() == own
        Ours(Arm(Method.AUTO), session).answer((Message(Role.USER, "abc"),), 0.0, 20)
    finally:
        session.close()
    assert sorted(own.iterdir()) == before
    assert list(tmp_path.rglob("*.json"))


def test_a_budget_ends_it_with_whole_cells_only(model: Model) -> None:
    found = contest(model, replace(TINY, rounds=500, budget_s=0.01), arms_of([Method.SUFFIX]))
    assert not found.complete
    assert order(found) == ["none", "suffix k=7"]
    said = laid_out(environment(io.BytesIO()), found, summarise(found))
    assert "Left out for want of time (--full has no limit): answers" not in said
    assert "Left out for want of time (--full has no limit): round 1 of" in said
    assert "rounds 2 to 500" in said


def opened_arms(monkeypatch: pytest.MonkeyPatch, most: int = 1000) -> list[str]:
    """The labels of all that are opened, of which there are at most so many."""
    opened, rightly = list[str](), enter

    def watched(model: Model, arm: Arm, folder: Path) -> Session:
        if len(opened) >= most:
            raise LlamaError("No more.")
        opened.append(arm.label)
        return rightly(model, arm, folder)

    monkeypatch.setattr(heats, "enter", watched)
    return opened


def test_each_round_has_contestants_that_were_opened_anew(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opened_arms(monkeypatch)
    found = contest(model, replace(TINY, budget_s=None, rounds=3), arms_of([Method.SUFFIX]))
    assert opened == ["none", "suffix k=7"] * 3
    assert (found.openings, found.complete, len(found.samples)) == (3, True, 2 * 4 * 3)


def test_a_round_that_cannot_be_opened_leaves_what_was_measured_before(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened_arms(monkeypatch, most=3)
    found = contest(model, replace(TINY, budget_s=None), arms_of([Method.SUFFIX]))
    assert len(found.samples) == 2 * 4
    assert found.left_out == "round 2"
    assert any("could not be opened for another round: No more." in note for note in found.notes)


def test_passes_that_would_take_too_long_are_left_out_and_one_row_never(model: Model) -> None:
    found = contest(model, replace(TINY, rounds=1, budget_s=1e-6, largest_pass=64), arms_of([Method.SUFFIX]))
    assert found.passes is not None
    assert list(found.passes.seconds) == [1]
    assert found.passes.ratio(8) == 1.0


def test_an_interrupt_keeps_what_was_measured(model: Model) -> None:
    def told(what: str) -> None:
        if what.startswith("2 of"):
            raise KeyboardInterrupt

    found = contest(model, TINY, arms_of([Method.SUFFIX]), told)
    assert found.interrupted
    assert order(found) == ["none", "suffix k=7"]
    assert "interrupted" in laid_out(environment(io.BytesIO()), found, summarise(found))

    def at_once(what: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        contest(model, TINY, arms_of([Method.SUFFIX]), at_once)


def short_of_memory(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many sessions fit at a time."""
    open_now = set[int]()
    rightly, close = enter, Session.close

    def opened(model: Model, arm: Arm, folder: Path) -> Session:
        if len(open_now) >= most:
            raise DoesNotFit("No room.")
        session = rightly(model, arm, folder)
        open_now.add(id(session))
        return session

    def closed(session: Session) -> None:
        open_now.discard(id(session))
        close(session)

    monkeypatch.setattr(heats, "enter", opened)
    monkeypatch.setattr(Session, "close", closed)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_where_memory_is_short_fewer_take_part_at_a_time_and_all_have_a_base(
    model: Model, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    short_of_memory(most, monkeypatch)
    found = contest(model, replace(TINY, rounds=1, kinds=("prose",)), arms_of(METHODS))
    summary = summarise(found)
    assert not found.missing
    for label in ("suffix k=7", "prompt-lookup k=7", "auto"):
        row = summary.row(label, 0.0)
        assert row is not None
        assert row.speedup is not None
    assert bool(found.notes) == (most == 1)


def test_a_method_that_the_model_has_not_is_named_with_its_reason(model: Model) -> None:
    found = contest(model, replace(TINY, rounds=1), arms_of([Method.DRAFT, Method.SUFFIX]))
    assert [gone.label for gone in found.missing] == ["draft k=3"]
    assert "--draft" in found.missing[0].reason
    assert "suffix k=7" in found.labels


class FrailPeer:
    """A peer that dies after two answers."""

    label = "peer frail"

    def __init__(self) -> None:
        self.left, self.closed = 2, False

    def answer(self, messages: Sequence[Message], temperature: float, tokens: int) -> Figures:
        if not self.left:
            raise LlamaError("It died.")
        self.left -= 1
        return Figures(10, 0.1, 0.1, steps=10)

    def close(self) -> None:
        self.closed = True


def test_a_peer_that_dies_leaves_and_the_others_go_on(model: Model) -> None:
    peer = FrailPeer()

    def make(plain: Session, draft: Path | None) -> list[tuple[str, object]]:
        assert plain.engine.model.path == Path(str(model.model))
        return [("peer frail", lambda: peer), ("peer absent", absent)]

    def absent() -> Entrant:
        raise LlamaError("Not built for this machine.")

    found = contest(model, TINY, arms_of([Method.SUFFIX]), peers=make)  # type: ignore[arg-type]
    assert order(found).count("peer frail") == 1  # the other answer was its warm-up
    assert order(found).count("suffix k=7") == 8
    assert {gone.label: gone.reason for gone in found.missing} == {
        "peer frail": "It died.",
        "peer absent": "Not built for this machine.",
    }
    assert peer.closed


def test_the_eight_classes_end_with_the_users_turn_and_the_scripts_keep_their_prompts() -> None:
    assert list(BENCH_CLASSES) == [
        "prose", "code", "edit", "summary", "list", "translation", "reasoning", "multi-turn"
    ]  # fmt: skip
    for conversations in BENCH_CLASSES.values():
        assert len(conversations) >= 2
        for messages in conversations:
            assert [m.role for m in messages] == [Role.USER, Role.ASSISTANT] * (len(messages) // 2) + [Role.USER]
    assert all(len(messages) >= 3 for messages in BENCH_CLASSES["multi-turn"])
    assert set(PROMPTS) == {"prose", "code", "list", "copy"}


def environment(stdout: io.BytesIO, **variables: str) -> Environment:
    return Environment(None, stdout, io.BytesIO(), False, False, False, variables)


def test_the_command_prints_tables_and_writes_both_files(model: Model, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    stdout = io.BytesIO()
    choices = Choices(
        methods=(Method.SUFFIX,), depths=(2, 4), temperatures=(0.0,), kinds=("prose",), tokens=8, rounds=1, quick=True,
        json_file=tmp_path / "out.json", plot_file=tmp_path / "out.png",
    )  # fmt: skip
    assert bench_model(environment(stdout), model, choices) is ExitCode.OK
    text = stdout.getvalue().decode()
    assert "suffix k=2" in text
    assert "suffix k=4" in text
    assert "\x1b" not in text
    data = json.loads((tmp_path / "out.json").read_text())
    assert {row["label"] for row in data["overall"]} == {"none", "suffix k=2", "suffix k=4"}
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_json_to_stdout_is_all_that_stdout_holds(model: Model) -> None:
    stdout = io.BytesIO()
    choices = Choices((Method.SUFFIX,), (), (0.0,), ("prose",), 8, 1, quick=True, json_file=Path("-"))
    bench_model(environment(stdout), model, choices)
    assert json.loads(stdout.getvalue())["schema"] == 1


def test_an_oracle_of_known_acceptance_takes_the_place_of_the_methods(model: Model) -> None:
    stdout = io.BytesIO()
    choices = Choices(depths=(3,), temperatures=(0.0,), kinds=("prose",), tokens=60, rounds=1, quick=True,
                      synthetic_alpha=1.0, json_file=Path("-"))  # fmt: skip
    bench_model(environment(stdout), model, choices)
    (row,) = [row for row in json.loads(stdout.getvalue())["overall"] if row["label"] == "oracle 1 k=3"]
    assert row["alpha"] == 1.0
    assert row["predicted"] > 1


@pytest.mark.parametrize("width", ["30", "50", "80", "140"])
def test_tables_keep_within_the_terminal(width: str) -> None:
    found = small_contest()
    text = laid_out(environment(io.BytesIO(), COLUMNS=width), found, summarise(found))
    assert max(map(len, text.splitlines())) <= int(width)
    for said in ("1.32", "prose", "code"):
        assert said in text
    assert "\x1b" not in text


def test_no_color_is_heeded_and_a_terminal_has_some() -> None:
    found = small_contest()
    terminal = replace(environment(io.BytesIO()), stdout_is_terminal=True)
    assert "\x1b[" in laid_out(terminal, found, summarise(found))
    assert "\x1b" not in laid_out(replace(terminal, variables={"NO_COLOR": "1"}), found, summarise(found))


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (Choices(quick=True, full=True), "--quick and --full"),
        (Choices(kinds=("poems",)), "There is no class of prompts 'poems'; there are: prose"),
        (Choices(plot_file=Path("out.gif")), ".png or .svg"),
        (Choices(plot_file=Path("nowhere/out.png")), "can't be written"),
        (Choices(json_file=Path("nowhere/out.json")), "can't be written"),
        (Choices(depths=(0,)), "--draft-tokens is 0"),
        (Choices(temperatures=(-1.0,)), "--temperature is -1"),
        (Choices(synthetic_alpha=1.5), "0 to 1"),
    ],
)
def test_what_cannot_be_done_is_said_before_any_model_is_opened(choices: Choices, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        bench_model(environment(io.BytesIO()), Model("no/such/model.gguf"), choices)
