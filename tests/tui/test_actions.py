"""One registry: keys, palette, slash commands and help agree, and keys can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.command import DiscoveryHit

from specchat.tui.actions import ACTIONS, BY_ID, BY_SLASH, Situation
from specchat.tui.commands import Command, read
from specchat.tui.footer import footer_line, offered
from specchat.tui.keymap import OF_THE_PROMPT, KeymapError, bindings_of, keys_shown, resolve, shown
from specchat.tui.options import ChatOptions
from specchat.tui.palette import ActionCommands
from specchat.tui.screens.help import help_text
from tests.tui.scripted import chat

NOT_IN_THE_PALETTE = {"palette", "interrupt", "quit_empty"}


def test_every_action_has_one_id_a_function_and_a_sentence() -> None:
    assert len(BY_ID) == len(ACTIONS)
    for action in ACTIONS:
        assert callable(action.load()), action.handler
        assert action.description.endswith("."), action.id
        assert action.slash, "every action can be asked for by name"


def test_no_name_and_no_key_means_two_things() -> None:
    assert len(BY_SLASH) == sum(len(action.slash) for action in ACTIONS)
    keys = [key for action in ACTIONS for key in action.keys]
    assert len(keys) == len(set(keys))
    assert set(resolve()) == set(BY_ID) | set(OF_THE_PROMPT)


async def test_keys_palette_commands_and_help_are_the_same_list(tmp_path: Path) -> None:
    bound = {binding.id for binding in bindings_of(ACTIONS)}
    help = help_text(resolve(), 96).plain
    async with chat(tmp_path) as running:
        await running.submit("Hello")
        palette = ActionCommands(running.app.screen)
        in_palette = {hit.text async for hit in palette.discover() if isinstance(hit, DiscoveryHit)}
    possible = Situation(loaded=True, has_messages=True)
    for action in ACTIONS:
        assert action.id in bound
        assert read(f"/{action.slash[0]}") == Command(action, "")
        assert action.name in help
        assert all(f"/{name}" in help for name in action.slash)
        assert keys_shown(action.id, resolve()) in help
        expected = action.id not in NOT_IN_THE_PALETTE and action.slash_when(possible)
        assert (action.name in in_palette) == expected, action.id


async def test_a_key_can_be_changed_and_the_help_says_so(tmp_path: Path) -> None:
    options = ChatOptions(keys={"new": "f10", "help": ["ctrl+b"], "theme": "f12"})
    async with chat(tmp_path, options=options) as running:
        await running.submit("Hello")
        await running.press("ctrl+n")
        assert running.texts(), "the old key does nothing any more"
        await running.press("f10")
        assert running.texts() == []
        await running.press("ctrl+b")
        assert running.app.screen.__class__.__name__ == "Help"
        assert "F10" in help_text(running.app.keys, 96).plain


async def test_enter_and_newline_can_be_swapped(tmp_path: Path) -> None:
    options = ChatOptions(keys={"send": "ctrl+j", "newline": "enter"})
    async with chat(tmp_path, options=options) as running:
        await running.press("a", "enter", "b")
        assert running.app.prompt.text == "a\nb"
        await running.press("ctrl+j")
        assert running.texts()[0] == "a\nb"


async def test_keys_on_a_message_can_be_changed(tmp_path: Path) -> None:
    async with chat(tmp_path, options=ChatOptions(keys={"copy": "w"})) as running:
        await running.submit("Hello")
        await running.press("alt+up", "w")
        assert running.app.clipboard == "Answer 1."


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"retri": "f7"}, "Did you mean retry?"),
        ({"new": "ctrl+r"}, "on both retry and new"),
        ({"new": "ctrl+i"}, "Tab"),
        ({"new": "up"}, "the prompt uses for cursor up"),
        ({"new": "f7"}, "the prompt uses for select all"),
        ({"new": 7}, "must be a key"),
    ],
)
def test_keys_that_cannot_be_meant_are_refused_with_a_sentence(keys: dict[str, object], words: str) -> None:
    with pytest.raises(KeymapError) as caught:
        resolve(keys)
    assert words in str(caught.value)
    assert str(caught.value).startswith("config.toml, [keys]: ")


def test_two_keys_can_be_swapped_and_one_taken_away() -> None:
    keys = resolve({"new": "ctrl+r", "retry": "ctrl+n", "chats": ""})
    assert (keys["new"], keys["retry"], keys["chats"]) == (("ctrl+r",), ("ctrl+n",), ())


def test_keys_are_shown_as_people_write_them() -> None:
    shown_keys = [shown(key) for key in ("ctrl+r", "f2", "left_square_bracket", "alt+up", "escape")]
    assert shown_keys == ["^R", "F2", "[", "alt+↑", "esc"]


def test_the_line_of_keys_follows_what_is_going_on() -> None:
    writing = [action.id for action in offered(Situation(generating=True))]
    assert writing[0] == "stop"
    assert "retry" not in writing
    on_message = [action.id for action in offered(Situation(on_message=True, has_messages=True))]
    assert {"copy", "edit", "previous_branch"} <= set(on_message)
    assert offered(Situation(failed=True))[0].id == "reload"


@pytest.mark.parametrize("width", [118, 78, 38, 20])
def test_the_line_of_keys_never_runs_over_and_keeps_the_help(width: int) -> None:
    for now in (Situation(), Situation(has_messages=True), Situation(generating=True), Situation(failed=True)):
        line = footer_line(now, resolve(), width)
        assert line.cell_length <= width
        assert "F1 help" in line.plain
