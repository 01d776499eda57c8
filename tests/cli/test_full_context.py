"""A conversation that is gone on with on the command line and no longer fits: room is made as set, and said."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from specchat.chat import room
from specchat.chat.continuing import record
from specchat.chat.conversation import Node
from specchat.chat.message import Message
from specchat.chat.preferences import preferences_path
from specchat.chat.prompt import PromptBuilder
from specchat.chat.reading import SUMMARY_QUESTION, Cut
from specchat.chat.shortening import Place
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import StoreError
from specchat.chat.text import visible
from specchat.cli import asking
from specchat.cli.recording import Recording
from tests.command_line import Ended, Household, household, run

CONTEXT = 1024


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Household]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with household(tmp_path, monkeypatch) as home:
        home.catalogue(f'[one]\nname = "The First"\ntarget = {{ path = "{home.folder / "tiny-Q8_0.gguf"}" }}\n')
        yield home


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What every prompt was built of, those that were only measured too."""
    built: list[list[str]] = []
    build = PromptBuilder.build

    def noted(self: PromptBuilder, messages: list[Message], **choices: bool | None) -> object:
        built.append([one.content for one in messages])
        return build(self, messages, **choices)

    monkeypatch.setattr(PromptBuilder, "build", noted)
    return built


def when_full(how: str) -> None:
    preferences_path().parent.mkdir(parents=True, exist_ok=True)
    preferences_path().write_text(f'[chat]\nwhen_full = "{how}"\n')


def filled(words: int = 50) -> str:
    """A conversation of eight exchanges, each with so many words; its id."""
    with Store(store_path()) as store:
        chat = store.new_chat(model="one")
        for number in range(8):
            record(store, chat, f"question {number} " + "word " * words, f"answer {number}", model="one")
        return chat.id


def go_on(*arguments: str, question: str = "And now?") -> Ended:
    return run("-c", "-n", "2", "--seed", "1", "--ctx", str(CONTEXT), *arguments, question)


def kept(chat_id: str) -> tuple[list[Node], dict[int, Cut]]:
    with Store(store_path()) as store:
        return store.thread(chat_id), store.cuts(chat_id)


def test_where_nothing_is_set_it_is_refused_with_what_can_be_done_and_nothing_is_kept(home: Household) -> None:
    chat_id = filled()
    before = kept(chat_id)
    code, out, err = go_on()
    assert (code, out) == (5, "")
    assert f"tokens, and the context holds {CONTEXT:,}." in err
    assert 'set when_full = "drop" (or "summarise") under [chat] in' in err
    assert str(preferences_path()) in err
    assert f"specchat --chat {chat_id[:8]}" in err
    assert "--ctx" in err
    assert err.count("\n") == 1
    assert kept(chat_id) == before


@pytest.mark.parametrize("quiet", [False, True])
def test_the_oldest_are_left_unread_where_that_is_set_and_that_is_said(
    home: Household, prompts: list[list[str]], quiet: bool
) -> None:
    chat_id = filled()
    when_full("drop")
    code, _, err = go_on(*(["-q"] if quiet else []))
    assert code == 0
    thread, cuts = kept(chat_id)
    (first,) = cuts
    count = [node.id for node in thread].index(first)
    assert 0 < count < 16, "no more than it takes"
    assert f"The {count} oldest messages are no longer read, to make room. In the chat, /trim all takes" in err
    assert err.count("\n") == 1
    assert prompts[-1] == [node.text for node in thread[count:-1]]
    assert prompts[-1][-1] == "And now?"
    assert len(thread) == 18, "nothing is lost"
    code, _, err = go_on(question="And then?")
    assert (code, err) == (0, ""), "there is room for a while"
    assert prompts[-1][0] == thread[count].text


def test_the_oldest_are_summarised_where_that_is_set(home: Household, prompts: list[list[str]]) -> None:
    chat_id = filled()
    when_full("summarise")
    code, out, err = go_on()
    assert code == 0
    thread, cuts = kept(chat_id)
    (cut,) = cuts.values()
    assert cut.summary
    count = [node.id for node in thread].index(cut.node_id)
    assert f"The {count} oldest messages are summarised, to make room." in err
    assert prompts[-1][:2] == [SUMMARY_QUESTION, cut.summary]
    assert prompts[-1][2:] == [node.text for node in thread[count:-1]]
    assert cut.summary not in out, "stdout carries the answer alone"
    assert out.strip() == visible(thread[-1].text).strip()


def test_what_can_not_be_read_for_a_summary_is_refused_and_not_left_out_instead(home: Household) -> None:
    chat_id = filled(words=500)
    when_full("summarise")
    before = kept(chat_id)
    code, out, err = go_on()
    assert (code, out) == (5, "")
    assert "They can't be summarised: one of them is too long to be read again for that." in err
    assert kept(chat_id) == before


@pytest.mark.parametrize("words", [165, 190])
def test_a_question_beside_which_no_summary_fits_is_refused_and_fits_alone(home: Household, words: int) -> None:
    chat_id = filled()
    question = ("word " * words).strip()
    when_full("summarise")
    before = kept(chat_id)
    code, out, err = go_on(question=question)
    assert (code, out) == (5, "")
    assert "They can't be summarised: with a summary, what comes after would leave no room for an answer." in err
    assert kept(chat_id) == before
    when_full("drop")
    assert go_on(question=question)[0] == 0


@pytest.mark.parametrize("words", [100, 186])
def test_a_summary_that_leaves_no_room_after_all_is_not_kept(
    home: Household, monkeypatch: pytest.MonkeyPatch, words: int
) -> None:
    # As of a summary with more tokens, read again, than it may be written with.
    monkeypatch.setattr(room, "_longest_read_again", lambda context: -context)
    summary = "word " * (2 if words == 186 else 150)
    monkeypatch.setattr(asking.Asking, "_summary", lambda self, place, recording: summary)
    chat_id = filled()
    when_full("summarise")
    before = kept(chat_id)
    # Longer than half of the context, so that it is read alone.
    code, out, err = run("-c", "-n", "90", "--seed", "1", "--ctx", str(CONTEXT), ("word " * words).strip())
    assert (code, out) == (5, "")
    assert "What would be left of it leaves no room for an answer either. To leave its oldest" in err
    assert kept(chat_id) == before


def test_what_ends_an_answer_early_does_not_end_a_summary(home: Household) -> None:
    when_full("summarise")
    summaries: list[str] = []
    for _ in range(2):
        chat_id = filled()
        stops = [part for summary in summaries for part in ("--stop", summary[10:12])]
        assert go_on(*stops)[0] == 0
        (cut,) = kept(chat_id)[1].values()
        summaries.append(cut.summary)
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize("trouble", ["deleted", "another branch", "not written"])
def test_where_the_conversation_changes_meanwhile_the_answer_is_kept_all_the_same(
    home: Household, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    chat_id = filled()
    when_full("drop")
    shorten, why = Recording.shorten, "the conversation has changed meanwhile."
    if trouble == "not written":
        why = "Another program is busy."

    def refused(*_: object, **__: object) -> None:
        raise StoreError(why)

    def meanwhile(self: Recording, place: Place, how: str, summary: str) -> None:
        shorten(self, place, how, summary)
        assert place.node_id is not None
        with Store(store_path()) as other:
            if trouble == "not written":
                monkeypatch.setattr(Store, "cut", refused)
            elif trouble == "deleted":
                other.remove(place.node_id)
            else:
                other.select(chat_id, other.thread(chat_id)[1].id)

    monkeypatch.setattr(Recording, "shorten", meanwhile)
    code, out, err = go_on()
    assert code == 0
    assert f"What was left out is left out this time only: {why}" in err
    thread, cuts = kept(chat_id)
    assert cuts == {}
    assert thread[-2].text == "And now?"
    assert visible(thread[-1].text).strip() == out.strip()
    assert thread[-1].finish_reason == "length", "it is kept to its end"


@pytest.mark.parametrize("form", ["", "--json", "--jsonl"])
def test_a_summary_that_is_stopped_changes_nothing(home: Household, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    from specchat.cli.asking import Asking

    chat_id = filled()
    when_full("summarise")
    before = kept(chat_id)
    ask = Asking._ask

    def stopped(self: Asking, *arguments: object, **choices: object) -> object:
        if choices:
            signal.raise_signal(signal.SIGINT)
        return ask(self, *arguments, **choices)  # type: ignore[arg-type]

    monkeypatch.setattr(Asking, "_ask", stopped)
    code, out, err = go_on(*([form] if form else []))
    assert code == 130
    assert "The summary was stopped; nothing has changed." in err
    events = [json.loads(line) for line in out.splitlines()]
    assert [event.get("event") for event in events] == {"": [], "--json": [None], "--jsonl": ["start", "end"]}[form]
    for event in events[-1:]:
        # As of an answer that is stopped before its first word.
        assert (event["finish_reason"], event["text"], event["completion_tokens"]) == ("cancelled", "", 0)
    assert kept(chat_id) == before


def test_a_question_that_is_too_long_itself_is_refused_whatever_is_set(home: Household) -> None:
    chat_id = filled()
    when_full("drop")
    before = kept(chat_id)
    code, _, err = go_on(question="word " * 2000)
    assert code == 5
    assert "The last question alone leaves no room for an answer. Shorten it or raise --ctx." in err
    assert kept(chat_id) == before


def test_a_long_question_is_read_alone_where_it_fits_alone(home: Household, prompts: list[list[str]]) -> None:
    chat_id = filled()
    when_full("drop")
    question = "word " * 150
    code, _, err = go_on(question=question.strip())
    assert code == 0
    thread, cuts = kept(chat_id)
    assert list(cuts) == [thread[-2].id], "the question that was asked"
    assert "The 16 oldest messages are no longer read" in err
    assert prompts[-1] == [question.strip()]
