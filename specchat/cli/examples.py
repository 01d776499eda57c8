"""The examples at the end of every `--help`: the one place they stand in; the tests run each as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "specchat",
        'specchat "Why is the sky blue?"',
        'git diff | specchat "Write a commit message."',
        'specchat -f notes.md -s "Answer in German." "What did I forget?"',
        'specchat -m qwen3-14b -y --ctx 16384 "Plan a week in Rome."',
        'specchat --temperature 0 --json "List ten tips for better sleep." > answer.json',
        'specchat -c "and shorter?"',
        "specchat --install-completion",
    ),
    "calibrate": (
        "specchat calibrate demo",
        "specchat calibrate demo --method layer-skip",
    ),
    "doctor": (
        "specchat doctor",
        "specchat doctor --offline --json",
    ),
    "audit": (
        "specchat audit demo",
        "specchat audit demo --quick --method draft",
    ),
    "bench": (
        "specchat bench demo --quick",
        "specchat bench demo --method draft -k 2 -k 4 --class code -n 32 --rounds 1 --json out.json",
        "specchat bench demo --quick --synthetic-alpha 0.8 --plot out.png",
    ),
    "config": ("specchat config",),
    "rest": (
        "specchat rest build notes ~/notes",
        'specchat rest query "def main("',
    ),
    "rest build": (
        "specchat rest build notes ~/notes",
        "specchat rest build code ~/notes notes.md -m qwen3-14b --force",
    ),
    "rest ls": ("specchat rest ls",),
    "rest rm": ("specchat rest rm notes",),
    "rest query": (
        'specchat rest query "def main("',
        'specchat rest query notes "Dear" -n 8',
    ),
    "models": (
        "specchat models ls",
        "specchat models fit qwen3-14b --vram 24GiB",
        "specchat models pull qwen3-14b -y",
    ),
    "models ls": (
        "specchat models ls",
        "specchat models ls --here --json",
    ),
    "models show": (
        "specchat models show qwen3-14b",
        "specchat models show hf:user/tiny:Q8_0 --json",
    ),
    "models pull": (
        "specchat models pull qwen3-14b -y",
        "specchat models pull hf:user/tiny:Q8_0 -y",
    ),
    "models rm": ("specchat models rm qwen3-14b -y",),
    "models path": ("specchat models path qwen3-14b",),
    "models fit": (
        "specchat models fit qwen3-14b --ctx 16384",
        "specchat models fit qwen3-14b --vram 24GiB -d none",
    ),
    "models convert": (
        "specchat models convert ~/heads/eagle3 --target demo -o eagle3.gguf",
        "specchat models convert ~/heads/medusa --target demo --force",
    ),
    "chats": (
        "specchat chats ls",
        "specchat chats search sleep",
    ),
    "chats ls": (
        "specchat chats ls",
        "specchat chats ls sleep --json",
    ),
    "chats show": ("specchat chats show 3f9c",),
    "chats search": ("specchat chats search sleep tips -n 5",),
    "chats export": (
        "specchat chats export 3f9c answer.md",
        "specchat chats export 3f9c --format json > chat.json",
    ),
    "chats rm": ("specchat chats rm 3f9c",),
}
"""By verb; the empty name is the program itself."""


def show_examples(app: typer.Typer) -> None:
    """End the help of `app` and of all its verbs with their examples; verbs without any are left as they are."""
    for name, info in _verbs(app):
        lines = EXAMPLES.get(name)
        if lines:
            # The backspace keeps lines as they are.
            info.epilog = "\b\nFor example:\n" + "\n".join(f"  {line}" for line in lines)


def _verbs(app: typer.Typer, path: str = "") -> Iterator[tuple[str, Any]]:
    """Names and descriptions, with which typer builds the commands later."""
    for command in app.registered_commands:
        # The hidden command is what the program does without a verb.
        yield ("" if command.hidden else f"{path} {command.name}".strip()), command
    for group in app.registered_groups:
        inner = group.typer_instance
        if inner is not None:
            name = f"{path} {group.name}".strip()
            yield name, inner.info
            yield from _verbs(inner, name)
