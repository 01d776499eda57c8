"""The user's config.toml: what may stand in it, and how wrong files are answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.catalogue.errors import CatalogueError
from specchat.catalogue.preferences import Preferences, preferences_path, read_preferences


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


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
        ("[sufix]\nremember = false\n", r"\[sufix\] is no table of this file; there is: suffix"),
        ("suffix = 3\n", "is a table with one key"),
        ("[suffix]\nremembr = false\n", "is a table with one key"),
        ('[suffix]\nremember = "no"\n', "must be true or false"),
    ],
)
def test_a_wrong_file_is_answered_with_its_path(text: str, complaint: str) -> None:
    write(text)
    with pytest.raises(CatalogueError, match=complaint) as caught:
        read_preferences()
    assert str(preferences_path()) in str(caught.value)
