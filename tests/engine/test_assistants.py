"""Drafting from a cache that a sliding window leaves: the text is plain decoding's far beyond the window as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.drafters.heads.drafter import AssistantDrafter
from specchat.drafters.method import Method
from specchat.engine.engine import Engine
from specchat.engine.settings import AnswerSettings, EngineSettings
from tests.assistant_models import write_assistant, write_gemma4
from tests.engine.test_heads import DEPTH, GREEDY, SEEDED, Forcing, ask

WINDOW, CONTEXT = 64, 1536
LONG = [1, *(10 + (7 * i * i) % 200 for i in range(1100))]
"""More than the window's cells: 64, and 512 for a pass, to a multiple of 256."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("gemma4")
    target = write_gemma4(folder / "gemma4.gguf", window=WINDOW)
    return target, write_assistant(folder / "assistant.gguf", window=WINDOW)


def opened(target: Path, head: Path | None, method: Method, *, tree: bool = False) -> Engine:
    settings = EngineSettings(target, head, method, draft_tokens=DEPTH, tree=tree, context=CONTEXT, threads=2)
    return Engine(settings)


@pytest.fixture(scope="module")
def engine(files: tuple[Path, Path]) -> Iterator[Engine]:
    engine = opened(*files, Method.MTP)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def plain(files: tuple[Path, Path]) -> Iterator[Engine]:
    engine = opened(files[0], None, Method.NONE)
    yield engine
    engine.close()


@pytest.mark.parametrize("settings", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_beyond_the_window_drafts_right_to_any_depth_leave_the_text_as_it_is(
    engine: Engine, plain: Engine, settings: AnswerSettings
) -> None:
    head = engine.drafter
    assert isinstance(head, AssistantDrafter)
    expected = ask(plain, LONG, settings).token_ids
    engine.drafter = Forcing(head, [*LONG, *expected])
    try:
        answer = ask(engine, LONG, settings)
    finally:
        engine.drafter = head
    # The window has left the beginning.
    assert not engine.target.can_keep(WINDOW)
    assert answer.token_ids == expected
    assert answer.metrics.accepted > 20
    assert ask(engine, LONG, settings).token_ids == expected
    assert head.note is None


def test_a_conversation_that_is_cut_back_behind_the_window_is_read_anew(engine: Engine, plain: Engine) -> None:
    talk = list(LONG)
    # The cells behind the window go back to position 373 by then.
    for keep in (len(LONG) + 20, 300, 310, 30, 60):
        answer = ask(engine, talk, GREEDY)
        # So that it reads the whole text, whatever it keeps.
        ask(plain, [2], GREEDY)
        assert answer.token_ids == ask(plain, talk, GREEDY).token_ids
        assert answer.metrics.drafted > 0
        talk = [*[*talk, *answer.token_ids][:keep], 44, 45, 46]
    assert engine.take_notes() == []


def test_why_it_drafts_no_trees_is_said_and_chains_are_drafted(files: tuple[Path, Path]) -> None:
    engine = opened(*files, Method.MTP, tree=True)
    (note,) = engine.take_notes()
    assert "sliding window, so it can't read trees of drafts: chains are drafted" in note
    assert ask(engine, LONG[:50], GREEDY).metrics.drafted > 0
    engine.close()
