"""Conversations are kept: as trees whose branches can be walked, in lists that show the latest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.chat.conversation import Chat
from specchat.chat.message import Role
from specchat.chat.store import Store, store_path
from specchat.chat.store_file import NotStored
from tests.chat.talks import say, texts


def test_it_lies_among_the_users_data_for_the_user_alone(store: Store, path: Path) -> None:
    say(store, "secret")
    assert store_path().name == "chats.db"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


def test_what_was_said_is_there_after_a_restart(store: Store, path: Path) -> None:
    chat = store.new_chat(model="demo", system="Be brief.")
    asked = store.add(chat.id, None, Role.USER, "Why?")
    answer = store.add(chat.id, asked.id, Role.ASSISTANT, "", model="other")
    figures = {"alpha": 0.71, "depths": {1: 2}, "per_position": (0.5,), "tok_s": float("nan")}
    spans = [("reasoning", "Hm.", "plain"), ("answer", "Because", "accepted")]
    store.write(answer.id, text="Because", reasoning="Hm.", finish_reason="stop", statistics=figures, spans=spans)
    store.close()
    with Store(path) as again:
        assert again.notes == []
        kept = again.thread(chat.id)
        assert texts(kept) == ["Why?", "Because"]
        assert (kept[1].reasoning, kept[1].model, kept[1].finish_reason) == ("Hm.", "other", "stop")
        assert kept[1].statistics == {"alpha": 0.71, "depths": {"1": 2}, "per_position": [0.5], "tok_s": None}
        assert kept[1].spans == tuple(spans)
        assert again.chat(chat.id) == Chat(chat.id, "Why?", "other", "Be brief.", chat.created, kept[1].created + 1)


def test_a_write_without_figures_keeps_those_that_are_there(store: Store) -> None:
    node = store.thread(say(store, "q", "a").id)[-1]
    store.write(node.id, text="a b", statistics={"tokens": 2}, spans=[("answer", "a b", "plain")])
    store.write(node.id, text="a b", finish_reason="cancelled")
    kept = store.node(node.id)
    assert (kept.statistics, kept.spans) == ({"tokens": 2}, (("answer", "a b", "plain"),))


def test_regenerating_and_editing_make_branches_that_can_be_walked(store: Store) -> None:
    chat = say(store, "q", "a1", "q2", "b")
    first, a1, _, b = store.thread(chat.id)
    a2 = store.add(chat.id, first.id, Role.ASSISTANT, "a2")
    assert texts(store.thread(chat.id)) == ["q", "a2"]
    assert texts(store.siblings(a2.id)) == ["a1", "a2"]
    edited = store.add(chat.id, None, Role.USER, "q, edited")
    assert texts(store.thread(chat.id)) == ["q, edited"]
    assert texts(store.siblings(first.id)) == ["q", "q, edited"]

    back = store.walk(edited.id, -1)
    assert back is not None
    assert back.id == first.id
    assert texts(store.thread(chat.id)) == ["q", "a2"]
    assert store.walk(a2.id, -1) == store.node(a1.id)
    assert texts(store.thread(chat.id)) == ["q", "a1", "q2", "b"]
    assert store.walk(a1.id, -1) is None
    assert store.walk(b.id, +1) is None
    assert texts(store.thread(chat.id)) == ["q", "a1", "q2", "b"]

    store.select(chat.id, a1.id)
    assert texts(store.thread(chat.id)) == ["q", "a1"]
    assert store.leaf_below(a1.id) == b.id
    assert texts(store.nodes(chat.id)) == ["q", "a1", "q2", "b", "a2", "q, edited"]


def test_the_end_of_a_long_conversation_can_be_read_alone(store: Store) -> None:
    chat = say(store, *map(str, range(20)))
    assert texts(store.thread(chat.id, last=3)) == ["17", "18", "19"]
    assert texts(store.thread(chat.id, last=50)) == list(map(str, range(20)))
    assert store.thread("nobody") == []


def test_another_conversations_messages_are_no_place_to_go_on(store: Store) -> None:
    one, other = say(store, "one"), say(store, "other")
    foreign = store.thread(other.id)[0].id
    for attempt in (
        lambda: store.add(one.id, foreign, Role.USER, "x"),
        lambda: store.add("nobody", None, Role.USER, "x"),
        lambda: store.select(one.id, foreign),
        lambda: store.write(999, text="x"),
        lambda: store.siblings(999),
        lambda: store.rename("nobody", "x"),
    ):
        with pytest.raises(NotStored, match="no longer there"):
            attempt()
    assert len(store.nodes(one.id)) == len(store.nodes(other.id)) == 1


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("\n \n  What is\tRoPE? \nMore", "What is RoPE?"),
        ("\x1b[2Jred\x07 \x9balert\r\nx", "[2Jred alert"),
        ("\u202eevil\u2066 text", "evil text"),
        ("[bold]x[/bold] <b>", "[bold]x[/bold] <b>"),
        ("x" * 200, "x" * 79 + "…"),
        ("👩‍👩‍👧 family \ud800", "👩‍👩‍👧 family ?"),
        (" \n\x00", ""),
    ],
)
def test_a_conversation_is_named_after_its_first_question(store: Store, said: str, title: str) -> None:
    chat = say(store, said, "a", "second")
    assert chat.title == (title or "second")
    store.rename(chat.id, "A new\nname")
    assert store.chat(chat.id).title == "A new"


def test_lists_show_the_latest_first_and_no_empty_ones(store: Store) -> None:
    assert store.latest() is None
    one, two = say(store, "about cats", "meow"), say(store, "about dogs", "cats again")
    store.new_chat(model="demo")
    assert [(s.title, s.messages) for s in store.chats(10)] == [("about dogs", 2), ("about cats", 2)]
    assert store.latest() == two
    store.write(store.thread(one.id)[-1].id, text="purr")
    assert store.latest() == store.chat(one.id)
    assert [s.title for s in store.chats(1)] == ["about cats"]
    assert [s.title for s in store.chats(10, query="CAT")] == ["about cats", "about dogs"]
    assert [s.title for s in store.chats(10, query="about dog")] == ["about dogs"]
    assert store.chats(10, query="about birds") == []
    store.rename(one.id, "Zoo: Ünlü + 1")
    assert [s.id for s in store.chats(10, query="ünlü + zoo")] == [one.id]


def test_the_beginning_of_an_id_names_a_conversation(store: Store) -> None:
    one = say(store, "one")
    assert store.chat(one.id[:8]) == one
    with pytest.raises(NotStored, match="specchat chats ls"):
        store.chat("")
    with pytest.raises(NotStored, match="There is no conversation 'x%'"):
        store.chat("x%")
    for _ in range(20):
        say(store, "other")
    with pytest.raises(NotStored, match="Write more of it"):
        next(store.chat(digit) for digit in "0123456789abcdef" if sum(s.id[0] == digit for s in store.chats(50)) > 1)
