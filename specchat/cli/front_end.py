"""One question or the chat: what a call of `specchat` without a verb means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode, UsageError
from specchat.cli.options import draft_tokens, flag, refuse_contradictions

_OF_ONE_ANSWER = ("as_json", "as_jsonl", "no_stream", "stats", "quiet")


def means_the_chat(options: Mapping[str, Any], environment: Environment) -> bool:
    """Whether the full-screen chat is meant: asked for, or nothing was asked and somebody sits at a terminal."""
    if options["interactive"]:
        return True
    asked = options["prompt"] or options["file"] or any(options[name] for name in _OF_ONE_ANSWER)
    return not asked and environment.stdin_is_terminal and environment.stdout_is_terminal


def open_chat(options: Mapping[str, Any], environment: Environment) -> ExitCode:
    """Open the chat; what is piped in or written on the command line stands in its prompt."""
    if environment.open_chat is None or not (environment.stdout_is_terminal and environment.stderr_is_terminal):
        raise UsageError('The chat needs a terminal. Ask one question instead: specchat "Why is the sky blue?"')
    for name in _OF_ONE_ANSWER:
        if options[name]:
            raise UsageError(f"{flag(name)} is about one answer, not about the chat.")
    if options["logit_bias"]:
        raise UsageError('The chat takes no --logit-bias. Ask one question with it: specchat "Why is the sky blue?"')
    refuse_contradictions(options)
    draft_tokens(options["draft_tokens"])
    return ExitCode(environment.open_chat(options, _prompt(options, environment)))


def _prompt(options: Mapping[str, Any], environment: Environment) -> str:
    from specchat.cli.diagnostics import Diagnostics
    from specchat.cli.prompt_input import read_prompt

    words, files = options["prompt"] or (), options["file"] or ()
    if environment.stdin_is_terminal and not files:
        return " ".join(words)
    return read_prompt(words, files, environment, Diagnostics(environment))
