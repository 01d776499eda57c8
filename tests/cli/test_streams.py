"""The bytes that leave on stdout and stderr, for a terminal, a pipe and NO_COLOR."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO

import pytest

from specchat.chat.reasoning import Channel
from specchat.chat.turn import Progress
from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.output import JsonLinesOutput, JsonOutput, ReaderClosed, Stdout, TextOutput, as_json
from specchat.speculation.step import Step


def environment(*, terminal: bool, variables: Mapping[str, str] | None = None) -> Environment:
    return Environment(None, BytesIO(), BytesIO(), terminal, terminal, terminal, variables or {})


def said(env: Environment) -> bytes:
    assert isinstance(env.stderr, BytesIO)
    return env.stderr.getvalue()


def printed(env: Environment) -> bytes:
    assert isinstance(env.stdout, BytesIO)
    return env.stdout.getvalue()


def run_diagnostics(env: Environment, *, quiet: bool = False) -> bytes:
    diagnostics = Diagnostics(env, quiet=quiet)
    diagnostics.progress("reading the prompt: 512 of 1,000 tokens")
    diagnostics.note("standard input is not valid UTF-8.")
    diagnostics.reasoning("Let me \x1b[31mthink")
    diagnostics.end_reasoning()
    diagnostics.statistics("demo · 3 tok")
    diagnostics.error("There is no file\nx.gguf.")
    return said(env)


def test_stderr_of_a_terminal() -> None:
    assert run_diagnostics(environment(terminal=True)) == (
        b"\r\x1b[K\x1b[2mreading the prompt: 512 of 1,000 tokens\x1b[0m"
        b"\r\x1b[K\x1b[2mspecchat: standard input is not valid UTF-8.\x1b[0m\n"
        b"\x1b[2mLet me [31mthink\x1b[0m\n"
        b"\x1b[2mdemo \xc2\xb7 3 tok\x1b[0m\n"
        b"\x1b[31mspecchat: There is no file x.gguf.\x1b[0m\n"
    )


PLAIN = (
    b"specchat: standard input is not valid UTF-8.\n"
    b"Let me [31mthink\n"
    b"demo \xc2\xb7 3 tok\n"
    b"specchat: There is no file x.gguf.\n"
)


def test_stderr_of_a_pipe_has_no_escape() -> None:
    assert run_diagnostics(environment(terminal=False)) == PLAIN


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_is_kept_on_a_terminal(variables: Mapping[str, str]) -> None:
    assert run_diagnostics(environment(terminal=True, variables=variables)) == PLAIN


def test_an_empty_no_color_counts_as_unset() -> None:
    assert b"\x1b[2m" in run_diagnostics(environment(terminal=True, variables={"NO_COLOR": ""}))


def test_quiet_keeps_errors_only() -> None:
    env = environment(terminal=False)
    assert run_diagnostics(env, quiet=True) == b"demo \xc2\xb7 3 tok\nspecchat: There is no file x.gguf.\n"


def answer(*texts: str) -> list[Progress]:
    return [Progress(None, [(Channel.REASONING, "hm"), (Channel.ANSWER, text)]) for text in texts]


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_stdout_is_the_answer_and_one_newline(terminal: bool, stream: bool) -> None:
    env = environment(terminal=terminal)
    output = TextOutput(Stdout(env), stream=stream)
    for progress in answer("Hél", "lo\n", "\nwor\x1b]0;title\x07ld", "\n\n"):
        output.progress(progress)
    output.end({})
    assert printed(env) == "Héllo\n\nwor]0;titleld\n".encode()


def test_text_is_streamed_as_it_comes() -> None:
    env = environment(terminal=False)
    output = TextOutput(Stdout(env), stream=True)
    output.progress(answer("one ")[0])
    assert printed(env) == b"one "


def test_json_is_one_line_that_steers_no_terminal() -> None:
    env = environment(terminal=False)
    output = JsonOutput(Stdout(env))
    output.progress(answer("x")[0])
    output.end({"text": "a\x1b[0m\x9bb\x7f é \u2028"})
    line = printed(env)
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"text": "a\x1b[0m\x9bb\x7f é \u2028"}
    assert not {0x1B, 0x7F} & set(line)
    assert b"\xc2\x9b" not in line


def test_json_lines_are_start_tokens_end() -> None:
    env = environment(terminal=False)
    output = JsonLinesOutput(Stdout(env), "demo")
    step = Step((5, 6), accepted=1, tested=1, drafted=1)
    output.progress(Progress(step, [(Channel.ANSWER, "hi")]))
    output.end({"schema": 1, "text": "hi"})
    events = [json.loads(line) for line in printed(env).splitlines()]
    assert [event["event"] for event in events] == ["start", "tokens", "end"]
    assert events[1]["token_ids"] == [5, 6]
    assert events[1]["origins"] == ["accepted", "bonus"]
    assert events[2]["text"] == "hi"


def test_no_infinity_becomes_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        as_json({"x": float("inf")})


class Closed(BytesIO):
    def write(self, _data: object) -> int:
        raise BrokenPipeError


def test_a_closed_reader_is_noticed() -> None:
    env = Environment(None, Closed(), BytesIO(), False, False, False)
    with pytest.raises(ReaderClosed):
        Stdout(env).write("x")


def test_a_closed_stderr_costs_nothing() -> None:
    Diagnostics(Environment(None, BytesIO(), Closed(), False, False, False)).error("x")
