"""The composition root: gives the command line its streams and the chat, of which neither knows the other."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from typing import Any

from specchat.cli.app import app, chat_alone
from specchat.cli.environment import Environment
from specchat.cli.options import draft_tokens


def run() -> None:
    """Run the program with the arguments and streams of this process."""
    environment = Environment.of_process(open_chat)
    if len(sys.argv) == 1 and environment.stdin_is_terminal and environment.stdout_is_terminal:
        # Building the commands' parsers takes a fifth of a second, and there is nothing to parse.
        sys.exit(chat_alone(environment))
    app(obj=environment)


def open_chat(options: Mapping[str, Any], prompt: str) -> int:
    """Open the chat with the command line's options and `prompt` typed in; the exit code."""
    # Nothing that is made before the first paint is garbage; the app switches it on again, and so does every way out.
    gc.disable()
    try:
        return _open_chat(options, prompt)
    finally:
        gc.enable()


def _open_chat(options: Mapping[str, Any], prompt: str) -> int:
    # Nothing of the engine is imported here: the screen is there before it.
    from specchat.chat.preferences import read_preferences, remember_theme
    from specchat.tui.model_shelf import ModelShelf
    from specchat.tui.options import ChatOptions
    from specchat.tui.run import run_chat
    from specchat.tui.theme import DEFAULT

    preferences = read_preferences()
    if options["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    _read_keys_from_the_terminal()
    shelf = ModelShelf()
    try:
        return run_chat(
            ChatOptions(
                load=_load(options),
                answers=_answers(options),
                system=options["system"] or "",
                chat=options["chat"],
                latest=options["resume"],
                prompt=prompt,
                keys=preferences.keys,
                theme=preferences.theme or DEFAULT,
                when_full=preferences.when_full,
                remember_theme=remember_theme,
            ),
            shelf,
        )
    finally:
        shelf.close()


def _load(options: Mapping[str, Any]) -> Any:
    from specchat.worker.messages import Load

    return Load(
        model=options["model"] or "",
        draft=options["draft"],
        method=str(options["method"]) if options["method"] else None,
        draft_tokens=draft_tokens(options["draft_tokens"]),
        tree=options["tree"],
        context=options["ctx"],
        threads=options["threads"],
        gpu_layers=options["gpu_layers"],
        kv_type=str(options["kv"]),
        draft_kv_type=str(options["draft_kv"]),
        force=options["force"],
    )


def _answers(options: Mapping[str, Any]) -> Any:
    from specchat.speculation.params import SAMPLING
    from specchat.tui.choices import AnswerChoices

    return AnswerChoices(
        sampling={name: options[name] for name in SAMPLING if options.get(name) is not None},
        max_tokens=options["max_tokens"],
        seed=options["seed"],
        accept=str(options["accept"]) if options["accept"] else None,
        stop=tuple(options["stop"] or ()),
        thinking={"on": True, "off": False}.get(options["think"]),
    )


def _read_keys_from_the_terminal() -> None:
    """Let descriptor 0, where the chat reads keys, be the terminal again after a text was piped in."""
    if sys.stdin is None or not sys.stdin.isatty():
        terminal = os.open("/dev/tty", os.O_RDWR)
        os.dup2(terminal, 0)
        os.close(terminal)


if __name__ == "__main__":
    run()
