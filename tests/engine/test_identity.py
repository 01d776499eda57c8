"""On the demo pair, text never depends on drafting: greedy under every rule, coupled at any temperature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.drafters.method import Method
from specchat.engine.settings import AnswerSettings
from specchat.engine.stopping import FinishReason
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

QUESTIONS = ("List ten tips for better sleep.", "What is the capital of France?", "Write a haiku about rain.")
GREEDY = SamplingParams(temperature=0)
WARM = SamplingParams(temperature=0.8)


def session(method: Method, k: int | None = None) -> Session:
    return open_session(ModelRequest(method=method, draft_tokens=k, context=512))


def ids(session: Session, question: str, settings: AnswerSettings) -> list[int]:
    turn = session.ask([Message(Role.USER, question)], settings)
    for _ in turn:
        pass
    return turn.answer.token_ids


@pytest.fixture(scope="module")
def plain() -> Iterator[Session]:
    opened = session(Method.NONE)
    yield opened
    opened.close()


@pytest.mark.parametrize("k", range(1, 8))
def test_greedy_text_is_plain_text_for_every_depth(plain: Session, k: int) -> None:
    drafting = session(Method.DRAFT, k)
    settings = AnswerSettings(GREEDY, max_tokens=32)
    accepted = 0
    for question in QUESTIONS:
        turn = drafting.ask([Message(Role.USER, question)], settings)
        for _ in turn:
            pass
        assert turn.answer.token_ids == ids(plain, question, settings)
        accepted += turn.answer.metrics.accepted
    drafting.close()
    assert accepted > 10


@pytest.mark.parametrize("mode", [AcceptanceMode.BLOCK, AcceptanceMode.TYPICAL, AcceptanceMode.COUPLED])
def test_greedy_text_is_plain_text_under_every_rule(plain: Session, mode: AcceptanceMode) -> None:
    drafting = session(Method.DRAFT, 4)
    for question in QUESTIONS:
        expected = ids(plain, question, AnswerSettings(GREEDY, max_tokens=28))
        assert ids(drafting, question, AnswerSettings(GREEDY, mode, max_tokens=28)) == expected
    drafting.close()


@pytest.mark.parametrize("k", [2, 5])
def test_a_seed_fixes_the_text_whatever_drafts(plain: Session, k: int) -> None:
    drafting = session(Method.DRAFT, k)
    texts = set()
    for seed in range(4):
        settings = AnswerSettings(WARM, AcceptanceMode.COUPLED, seed=seed, max_tokens=28)
        expected = ids(plain, QUESTIONS[0], settings)
        assert ids(drafting, QUESTIONS[0], settings) == expected
        texts.add(tuple(expected))
    drafting.close()
    assert len(texts) == 4


def test_a_second_turn_reuses_the_first_ones_cache_and_reads_the_same(plain: Session) -> None:
    drafting = session(Method.DRAFT, 3)
    settings = AnswerSettings(GREEDY, max_tokens=30)
    answers = []
    for opened in (plain, drafting):
        first = opened.ask([Message(Role.USER, QUESTIONS[1])], settings)
        for _ in first:
            pass
        talk = [
            Message(Role.USER, QUESTIONS[1]),
            Message(Role.ASSISTANT, first.text, tuple(first.answer.token_ids)),
            Message(Role.USER, "And of Italy?"),
        ]
        second = opened.ask(talk, settings)
        for _ in second:
            pass
        shared = first.answer.timings.prompt_tokens + len(first.answer.token_ids) - 1
        assert second.answer.timings.reused_tokens >= shared
        answers.append((first.answer.token_ids, second.answer.token_ids))
        # Regenerated from scratch, it is the same text: the reused cells hold what they should.
        opened.engine.target.clear()
        again = opened.ask(talk, settings)
        for _ in again:
            pass
        assert again.answer.token_ids == second.answer.token_ids
    drafting.close()
    assert answers[0] == answers[1]


class After:
    """Says stop once it was asked `n` times."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self) -> bool:
        self.n -= 1
        return self.n < 0


def test_cancelled_and_asked_again_the_text_is_the_same(plain: Session) -> None:
    drafting = session(Method.DRAFT, 3)
    settings = AnswerSettings(GREEDY, max_tokens=28)
    expected = ids(plain, QUESTIONS[0], settings)
    for after in range(0, 12, 3):
        turn = drafting.ask([Message(Role.USER, QUESTIONS[0])], settings, cancelled=After(after))
        for _ in turn:
            pass
        assert turn.answer.finish_reason is FinishReason.CANCELLED
        assert turn.answer.token_ids == expected[: len(turn.answer.token_ids)]
        assert ids(drafting, QUESTIONS[0], settings) == expected
    drafting.close()


def test_the_draft_is_cut_from_the_target_and_kept(demo: Path) -> None:
    opened = session(Method.DRAFT)
    assert opened.engine.settings.draft is not None
    before = opened.engine.settings.draft.stat().st_mtime_ns
    opened.close()
    again = session(Method.DRAFT)
    assert again.engine.settings.draft is not None
    assert again.engine.settings.draft.stat().st_mtime_ns == before
    assert again.engine.settings.draft.stat().st_size < demo.stat().st_size
    again.close()
