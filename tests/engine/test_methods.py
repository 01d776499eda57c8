"""On the demo, every method gives the text that plain decoding gives; none of them is for show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specchat.chat.message import Message, Role
from specchat.chat.session import ModelRequest, Session, open_session
from specchat.drafters.method import HEAD_METHODS, Method
from specchat.engine.answer import Answer
from specchat.engine.settings import AnswerSettings
from specchat.speculation.mode import AcceptanceMode
from specchat.speculation.params import SamplingParams

COPY = "Repeat this word for word: the old lamp stood by the old door, and the old door stood by the old wall."
QUESTIONS = ("List ten tips for better sleep.", COPY, "Why do leaves turn red?")
# The demo has no trained head: `test_heads.py` has them.
DEPTHS: dict[Method, int | None] = {method: 7 for method in Method if method not in (Method.NONE, *HEAD_METHODS)}
DEPTHS |= dict.fromkeys((Method.DRAFT, Method.LAYER_SKIP, Method.EARLY_EXIT), 3)
DEPTHS[Method.AUTO] = None
SETTINGS = (
    AnswerSettings(SamplingParams(temperature=0), max_tokens=28),
    AnswerSettings(SamplingParams(temperature=0.8), AcceptanceMode.COUPLED, seed=7, max_tokens=28),
)

pytestmark = pytest.mark.demo


def ask(session: Session, question: str, settings: AnswerSettings) -> Answer:
    turn = session.ask([Message(Role.USER, question)], settings)
    for _ in turn:
        pass
    return turn.answer


@pytest.fixture(scope="module")
def expected() -> Iterator[dict[tuple[str, int], list[int]]]:
    session = open_session(ModelRequest(method=Method.NONE, context=512))
    yield {
        (question, i): ask(session, question, settings).token_ids
        for question in QUESTIONS
        for i, settings in enumerate(SETTINGS)
    }
    session.close()


@pytest.mark.parametrize("method", DEPTHS)
def test_the_text_is_that_of_plain_decoding(method: Method, expected: dict[tuple[str, int], list[int]]) -> None:
    session = open_session(ModelRequest(method=method, draft_tokens=DEPTHS[method], context=512))
    drafted = 0
    for question in QUESTIONS:
        for i, settings in enumerate(SETTINGS):
            answer = ask(session, question, settings)
            assert answer.token_ids == expected[question, i]
            drafted += answer.metrics.drafted
    assert session.engine.method is method
    # `auto` may find that nothing pays here.
    assert drafted > 0 or method is Method.AUTO
    session.close()
