"""What is cut where a context is full, and that every sentence about it is true in every state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from specchat.chat.conversation import Node
from specchat.chat.message import Message, Role
from specchat.chat.reading import SUMMARY_QUESTION, Asked, Cut, about_unread, asked, cut_in, unread, unsummarised
from specchat.chat.room import Need, need_of
from specchat.chat.shortening import DROP, SUMMARISE, NoPlace, NoSummary, Place, Summarising, place_in
from specchat.chat.store import Store

CONTEXT = 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "chats.db") as opened:
        yield opened


def conversation(store: Store, questions: int) -> list[Node]:
    """Questions 1, 2, … and their answers; the last question waits."""
    chat = store.new_chat(model="demo")
    nodes: list[Node] = []
    for place in range(2 * questions - 1):
        role, text = (Role.USER, f"q{place // 2 + 1}") if place % 2 == 0 else (Role.ASSISTANT, f"a{place // 2 + 1}")
        nodes.append(store.add(chat.id, nodes[-1].id if nodes else None, role, text))
    return nodes


def found(thread: Sequence[Node], need: Need, cut: Cut | None = None, system: str = "") -> Place | NoPlace:
    """Where it can be cut."""
    return place_in(thread, asked(system, thread, cut), cut, need, CONTEXT)


def place(thread: Sequence[Node], need: Need, cut: Cut | None = None, system: str = "") -> Place:
    there = found(thread, need, cut, system)
    assert isinstance(there, Place)
    return there


def test_what_can_be_left_out_is_counted_and_named(store: Store) -> None:
    thread = conversation(store, 4)
    there = place(thread, Need(1100, 4, (4,)))
    assert (there.node_id, there.messages) == (thread[4].id, 4)
    assert there.offer == (
        "The conversation has 1,100 tokens, and the context holds 1,000. "
        "Its 4 oldest messages can be left unread: they are kept."
    )
    assert there.done(DROP) == "The 4 oldest messages are no longer read, to make room. /trim all takes that back."
    assert "4 oldest messages are summarised" in there.done(SUMMARISE)


def test_after_a_cut_no_more_is_promised_than_what_is_read_still(store: Store) -> None:
    thread = conversation(store, 6)
    there = place(thread, Need(1100, 4, (4,)), Cut(thread[4].id))
    assert (there.node_id, there.messages) == (thread[8].id, 4)
    assert there.offer == (
        "What is read of the conversation has 1,100 tokens, and the context holds 1,000. "
        "4 more of its messages can be left unread: they are kept."
    )
    assert there.done(DROP).startswith("4 more messages are no longer read, to make room. /trim")


def test_where_nothing_more_can_be_left_out_it_is_said_what_is_left_out_already(store: Store) -> None:
    thread = conversation(store, 3)
    nothing = found(thread, Need(300, 0))
    assert nothing == NoPlace(
        "The conversation has 300 tokens, and the context holds 1,000. "
        "That is half of it at most, so nothing has to be left out.",
        False,
    )
    after = found(thread, Need(300, 0), Cut(thread[2].id))
    assert isinstance(after, NoPlace)
    assert after.sentence.endswith("so nothing more has to be left out. The 2 messages before are left out already.")
    last = found(thread, Need(700, 0), Cut(thread[4].id))
    assert isinstance(last, NoPlace)
    assert last.sentence.endswith(
        "There is nothing more before the last question that could be left out. "
        "The 4 messages before are left out already."
    )
    only = found(thread[:1], Need(700, 0))
    assert isinstance(only, NoPlace)
    assert only.sentence.endswith("There is nothing before the last question that could be left out.")


def test_a_question_that_is_too_long_itself_is_said_with_what_stays_before_it(store: Store) -> None:
    thread = conversation(store, 2)
    sentences = [
        found(thread, Need(2000, None), cut, system)
        for cut, system in ((None, ""), (None, "Be brief."), (Cut(thread[2].id, "We met."), "Be brief."))
    ]
    assert all(isinstance(one, NoPlace) and one.full for one in sentences)
    endings = ["alone", "with the system prompt", "with the system prompt and the summary"]
    for one, ending in zip(sentences, endings, strict=True):
        assert isinstance(one, NoPlace)
        assert one.sentence.endswith(f"The last question {ending} leaves no room for an answer.")
    answered = found(thread[:2], Need(2000, None))
    assert isinstance(answered, NoPlace)
    assert answered.sentence.endswith("The last question and its answer alone leave no room for another.")


def test_a_question_that_is_not_stored_yet_can_be_the_first_that_is_read(store: Store) -> None:
    thread = conversation(store, 3)
    said = asked("", thread)
    unstored = Asked(said.messages, (*said.nodes[:-1], None))
    there = place_in(thread[:-1], unstored, None, Need(1100, 4, (4,)), CONTEXT)
    assert isinstance(there, Place)
    assert (there.node_id, there.messages) == (None, 4)


def test_a_summary_is_offered_only_where_all_of_it_can_be_read(store: Store) -> None:
    thread = conversation(store, 4)
    whole = place(thread, Need(1100, 4, (4,)))
    assert whole.can_be_summarised
    in_pieces = place(thread, Need(1100, 4, (2, 4)))
    assert in_pieces.offer.endswith("A summary takes 2 steps.")
    never = place(thread, Need(1100, 4))
    assert not never.can_be_summarised
    assert never.offer.endswith("They can't be summarised: one of them is too long to be read again for that.")
    crowded = place(thread, Need(1100, 4, (), crowded=True))
    assert not crowded.can_be_summarised
    assert crowded.offer.endswith(
        "They can't be summarised: with a summary, what comes after would leave no room for an answer."
    )


def test_pieces_are_summarised_one_behind_the_summary_of_those_before(store: Store) -> None:
    thread = conversation(store, 4)
    summarising = Summarising(place(thread, Need(1100, 5, (3, 5)), system="Be brief."))
    asked_with, steps = [[one.content for one in summarising.asked]], [summarising.step]
    summarising.take(" They said 1. ")
    asked_with.append([one.content for one in summarising.asked])
    steps.append(summarising.step)
    assert steps == [": step 1 of 2", ": step 2 of 2"]
    assert asked_with == [
        ["Be brief.", "q1", "a1", SUMMARY_QUESTION],
        ["Be brief.", SUMMARY_QUESTION, "They said 1.", "q2", "a2", SUMMARY_QUESTION],
    ]
    summarising.take("They said 1 and 2.\n")
    assert (summarising.asked, summarising.summary) == ((), "They said 1 and 2.")


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [(" \n", None, "the model wrote nothing."), ("Half", "It was killed.", "It was killed.")],
)
def test_a_summary_that_does_not_come_says_why(store: Store, answer: str, error: str | None, why: str) -> None:
    summarising = Summarising(place(conversation(store, 4), Need(1100, 4, (4,))))
    assert summarising.step == ""
    with pytest.raises(NoSummary, match=f"The oldest messages could not be summarised: {why}"):
        summarising.take(answer, error)


def test_a_summary_goes_on_from_the_one_before_it(store: Store) -> None:
    thread = conversation(store, 4)
    cut = Cut(thread[2].id, "They said 1.")
    first = [one.content for one in Summarising(place(thread, Need(1100, 4, (4,)), cut)).asked]
    assert first == [SUMMARY_QUESTION, "They said 1.", "q2", "a2", SUMMARY_QUESTION]


def test_dropping_more_after_a_summary_keeps_it_and_says_what_it_stands_for(store: Store) -> None:
    thread = conversation(store, 5)
    place(thread, Need(1100, 4, (4,))).keep(store, thread[4].id, SUMMARISE, "They said 1 and 2.")
    chat_id, ids = thread[0].chat_id, [node.id for node in thread]
    for question, words in ((3, "the 2 after them are"), (4, "the 4 after them are")):
        cut = cut_in(ids, store.cuts(chat_id))
        assert cut is not None
        there = place(thread, Need(1100, 4, (4,)), cut)
        assert there.messages == 2
        assert "The summary of those before is still read." in there.done(DROP)
        there.keep(store, thread[2 * question].id, DROP)
        now = cut_in(ids, store.cuts(chat_id))
        assert now == Cut(thread[2 * question].id, "They said 1 and 2.", thread[4].id)
        said = about_unread(unread(ids, now), unsummarised(ids, now), summary=True)
        assert f"in the place of the first 4 of the {2 * question} messages above; {words} no longer read:" in said
        assert [one.content for one in asked("", thread, now).messages][:3] == [
            SUMMARY_QUESTION, "They said 1 and 2.", f"q{question + 1}",
        ]  # fmt: skip


def test_a_summary_does_not_stand_for_what_was_left_out_before_it_was_written(store: Store) -> None:
    thread = conversation(store, 7)
    chat_id, ids = thread[0].chat_id, [node.id for node in thread]

    def shorten(how: str, first: int, summary: str = "") -> str:
        held = cut_in(ids, store.cuts(chat_id))
        head = 2 if held is not None and held.summary else 0
        place(thread, Need(1100, head + 2, (head + 2,)), held).keep(store, thread[first].id, how, summary)
        now = cut_in(ids, store.cuts(chat_id))
        assert now is not None
        return about_unread(unread(ids, now), unsummarised(ids, now), summary=bool(now.summary), missed=now.missed)

    assert shorten(DROP, 2) == "the 2 messages above are no longer read by the model"
    said = shorten(SUMMARISE, 4, "They said 2.")
    assert said.endswith("in the place of 2 of the 4 messages above; the other 2 are not in it and no longer read:")
    said = shorten(DROP, 6)
    assert said.endswith("in the place of 2 of the 6 messages above; the other 4 are not in it and no longer read:")
    said = shorten(SUMMARISE, 8, "They said 2 and 4.")
    assert said.endswith("in the place of 4 of the 8 messages above; the other 4 are not in it and no longer read:")


def test_a_question_that_was_never_answered_is_not_offered_to_be_left_out(store: Store) -> None:
    chat = store.new_chat(model="demo")
    refused = store.add(chat.id, None, Role.USER, "q1")
    empty = store.add(chat.id, refused.id, Role.ASSISTANT, "")
    question = store.add(chat.id, empty.id, Role.USER, "q2")
    thread = [refused, empty, question, store.add(chat.id, question.id, Role.ASSISTANT, "a2")]
    read = asked("", thread)
    need = need_of(read.messages, read.head, CONTEXT, len, len)
    assert (read.nodes[0], need.first) == (question.id, 0)
    there = found(thread, need)
    assert isinstance(there, NoPlace)
    assert there.sentence.endswith("That is half of it at most, so nothing has to be left out.")
    thread += [store.add(chat.id, thread[-1].id, Role.USER, "q3")]
    assert place(thread, Need(1100, 2, (2,))).messages == 2, "only what is read can be left out"


def test_a_summary_that_stands_for_all_says_so_and_so_does_a_cut_without_one(store: Store) -> None:
    ids = [node.id for node in conversation(store, 3)]
    with_one, without = Cut(ids[4], "They said."), Cut(ids[4])
    assert about_unread(unread(ids, with_one), unsummarised(ids, with_one), summary=True).endswith(
        "in the place of the 4 messages above:"
    )
    assert unsummarised(ids, without) == 4
    assert about_unread(4, 4, summary=False) == "the 4 messages above are no longer read by the model"
    assert Message(Role.USER, SUMMARY_QUESTION) in asked("", [], with_one).messages
