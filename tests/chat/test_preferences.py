"""The user's config.toml: what may stand in it, and how wrong files are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.chat.preferences import (
    Preferences,
    PreferencesError,
    preferences_path,
    read_preferences,
    remember_theme,
)


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(text: str) -> None:
    preferences_path().parent.mkdir(parents=True, exist_ok=True)
    preferences_path().write_text(text, encoding="utf-8")


def test_without_a_file_past_text_is_kept() -> None:
    assert read_preferences() == Preferences(remember=True)


def test_past_text_can_be_switched_off() -> None:
    write("[suffix]\nremember = false\n")
    assert read_preferences() == Preferences(remember=False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[suffix\n", "is not valid TOML"),
        ("[sufix]\nremember = false\n", r"\[sufix\] is no table of this file; there are: suffix, chat, keys"),
        ("suffix = 3\n", "suffix must be a table"),
        ("[suffix]\nremembr = false\n", "has no key remembr; there are: remember"),
        ('[suffix]\nremember = "no"\n', "must be true or false"),
        ("[chat]\ntheme = 3\n", "theme must be the name of a theme"),
        ('[chat]\nwhen_full = "stop"\n', "when_full is 'stop', but it must be one of: ask, drop, summarise"),
    ],
)
def test_a_wrong_file_is_answered_with_its_path(text: str, complaint: str) -> None:
    write(text)
    with pytest.raises(PreferencesError, match=complaint) as caught:
        read_preferences()
    assert str(preferences_path()) in str(caught.value)


def test_keys_and_theme_are_read_for_the_chat() -> None:
    write('[chat]\ntheme = "nord"\nkeep_questions = false\n[keys]\nstop = "ctrl+x"\n')
    assert read_preferences() == Preferences(theme="nord", keep_questions=False, keys={"stop": "ctrl+x"})


def test_what_happens_when_the_context_is_full_is_read_for_the_chat() -> None:
    assert read_preferences().when_full == "ask"
    write('[chat]\nwhen_full = "drop"\n')
    assert read_preferences().when_full == "drop"


def test_a_theme_chosen_in_the_chat_lasts_unless_the_file_names_one() -> None:
    remember_theme("gruvbox")
    assert read_preferences().theme == "gruvbox"
    write('[chat]\ntheme = "nord"\n')
    assert read_preferences().theme == "nord"
