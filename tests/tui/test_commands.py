"""Slash commands: what is a command, what is a prompt, what Tab completes, what /set refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from specchat.speculation.params import SamplingParams
from specchat.tui.actions import BY_SLASH
from specchat.tui.attaching import LARGEST, NotAttached, attached
from specchat.tui.choices import DEFAULTS, KEYS, AnswerChoices, switch
from specchat.tui.clipboard import copy, desktop_command
from specchat.tui.commands import Command, Prompt, Unknown, read
from specchat.tui.completion import Completion
from specchat.tui.prompt_file import PromptFile


@pytest.mark.parametrize(
    "text",
    ["Hello", "/usr/bin is where?", "/etc", "/Help", "/help/me", "a /help", "", "1/2", "/\nhelp", "/help2"],
)
def test_what_is_no_command_goes_to_the_model_as_it_is(text: str) -> None:
    if text == "/etc":
        assert isinstance(read(text), Unknown)
    else:
        assert read(text) == Prompt(text)


def test_two_slashes_send_one() -> None:
    assert read("//help me") == Prompt("/help me")


@pytest.mark.parametrize("name", sorted(BY_SLASH))
def test_every_name_is_its_action_and_takes_words(name: str) -> None:
    assert read(f"/{name}") == Command(BY_SLASH[name], "")
    assert read(f"/{name}  two words \n") == Command(BY_SLASH[name], "two words")


def test_an_unknown_command_names_the_nearest() -> None:
    unknown = read("/modl qwen")
    assert isinstance(unknown, Unknown)
    assert "/model?" in unknown.sentence
    far = read("/xyzzy")
    assert isinstance(far, Unknown)
    assert "F1" in far.sentence


def completed(text: str) -> str | None:
    complete = Completion(lambda: ["demo", "qwen3-4b", "qwen3-8b"], lambda: ["specchat-dark", "specchat-light"])
    found = complete(text, len(text))
    return None if found is None else text[: found[0]] + found[1]


def test_tab_completes_as_far_as_is_certain(tmp_path: Path) -> None:
    assert completed("/reg") == "/regen "
    assert completed("/model d") == "/model demo "
    assert completed("/model q") == "/model qwen3-"
    assert completed("/model qwen3-") is None
    assert completed("/theme specchat-l") == "/theme specchat-light "
    assert completed("/set temp") == "/set temperature "
    assert completed("what is /reg") is None
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "nothing").mkdir()
    assert completed(f"/file {tmp_path}/not") == f"/file {tmp_path}/not" or completed(f"/file {tmp_path}/not") is None
    assert completed(f"/file {tmp_path}/note") == f"/file {tmp_path}/notes.txt"
    assert completed(f"/file {tmp_path}/noth") == f"/file {tmp_path}/nothing/"


@pytest.mark.parametrize(
    ("key", "text", "words"),
    [
        ("temperature", "-1", "at least 0"),
        ("top_p", "1.5", "at most 1"),
        ("top-k", "3.5", "whole number"),
        ("temprature", "1", "temperature?"),
        ("colour", "1", "There are"),
        ("seed", "-3", "between"),
        ("max_tokens", "0", "between"),
        ("accept", "maybe", "exact, block, coupled, typical"),
        ("min_p", "nan", "min_p"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_a_sentence(key: str, text: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"[.?]$") as caught:
        AnswerChoices().with_value(key, text)
    assert words in str(caught.value)


def test_values_are_kept_shown_and_taken_back() -> None:
    answers = AnswerChoices()
    for key, text in (
        ("temperature", "0.7"),
        ("top-k", "20"),
        ("seed", "7"),
        ("accept", "block"),
        ("stop", "END \\n\\n"),
    ):
        answers = answers.with_value(key, text)
    assert answers.sampling == {"temperature": 0.7, "top_k": 20}
    assert (answers.seed, answers.accept, answers.stop) == (7, "block", ("END", "\n\n"))
    assert [answers.shown(key) for key in ("temperature", "top_k", "seed", "accept", "stop")] == [
        "0.7", "20", "7", "block", "END \\n\\n",
    ]  # fmt: skip
    for key in KEYS:
        answers = answers.with_value(key, "default")
        assert answers.shown(key) == ""
    assert answers == AnswerChoices()


def test_names_and_defaults_are_those_of_the_engine() -> None:
    for key, shown in DEFAULTS.items():
        if hasattr(SamplingParams(), key):
            assert float(shown) == getattr(SamplingParams(), key)


def test_a_switch_turns_over_without_a_word() -> None:
    assert switch("", True) is False
    assert switch("on", False) is True
    with pytest.raises(ValueError, match="neither on nor off"):
        switch("perhaps", True)


def test_a_text_file_is_fenced_with_its_name_whatever_fences_it_has(tmp_path: Path) -> None:
    file = tmp_path / "my notes.md"
    file.write_text("```\ncode\n```", encoding="utf-8")
    assert attached(f"'{file}'") == ("my notes.md", "my notes.md:\n````md\n```\ncode\n```\n````\n")


@pytest.mark.parametrize("kind", ["binary", "huge", "missing", "directory", "nul"])
def test_what_is_no_text_file_is_refused_with_a_sentence(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.bin"
    if kind == "binary":
        path.write_bytes(b"\xff\xfe\x00\x80")
    elif kind == "nul":
        path.write_bytes(b"text\0more")
    elif kind == "huge":
        path.write_bytes(b"x" * (LARGEST + 1))
    elif kind == "directory":
        path.mkdir()
    with pytest.raises(NotAttached, match=r"file\.bin .*[.]"):
        attached(str(path))


def test_the_clipboard_is_reached_both_ways() -> None:
    through_terminal: list[str] = []
    handed: list[tuple[list[str], bytes]] = []

    def run(command: object, text: bytes) -> bool:
        handed.append((list(command), text))  # type: ignore[call-overload]
        return True

    assert copy("é", through_terminal.append, ["wl-copy"], run) == ""
    assert (through_terminal, handed) == (["é"], [(["wl-copy"], "é".encode())])
    assert copy("x" * 80_000, through_terminal.append, ["wl-copy"], run) == ""
    assert "80,000 bytes" in copy("x" * 80_000, through_terminal.append, None)
    assert len(through_terminal) == 1


def test_the_desktop_program_is_the_one_that_is_there() -> None:
    def has(*names: str) -> object:
        return lambda name: name if name in names else None

    assert desktop_command({"WAYLAND_DISPLAY": "w"}, has("wl-copy", "xclip"), "linux") == ["wl-copy"]  # type: ignore[arg-type]
    assert desktop_command({"DISPLAY": ":0"}, has("xclip"), "linux") == ["xclip", "-selection", "clipboard"]  # type: ignore[arg-type]
    assert desktop_command({}, has("xclip", "wl-copy"), "linux") is None  # type: ignore[arg-type]
    assert desktop_command({}, has("pbcopy"), "darwin") == ["pbcopy"]  # type: ignore[arg-type]


def test_prompts_written_before_survive_a_start(tmp_path: Path) -> None:
    path = tmp_path / "state" / "prompts.jsonl"
    first = PromptFile(path)
    for text in ("one", "two\nlines", "two\nlines", "x" * 30_000):
        first.add(text)
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("a") as file:
        file.write("not json\n7\n")
    assert PromptFile(path).entries() == ["one", "two\nlines"]


def test_the_file_of_prompts_stays_short(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'"{number}"\n' for number in range(1500)))
    assert PromptFile(path).entries()[0] == "1000"
    assert len(path.read_text().splitlines()) == 500
