"""Where the prompt comes from, and what is refused."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path

import pytest

from specchat.cli.diagnostics import Diagnostics
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import UsageError
from specchat.cli.prompt_input import read_prompt


def read(
    stdin: bytes | None = None, words: tuple[str, ...] = (), files: tuple[Path, ...] = (), *, terminal: bool = False
) -> tuple[str, str]:
    stderr = BytesIO()
    stream = None if stdin is None else BytesIO(stdin)
    environment = Environment(stream, BytesIO(), stderr, terminal, False, False)
    return read_prompt(words, files, environment, Diagnostics(environment)), stderr.getvalue().decode()


def test_stdin_comes_first_then_a_blank_line_then_the_arguments() -> None:
    assert read(b"a document\n", ("sum", "it up"))[0] == "a document\n\nsum it up"


def test_files_are_fenced_under_their_names(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk\n")
    assert read(None, ("What do I need?",), (path,))[0] == "notes.txt:\n```\nmilk\n```\n\nWhat do I need?"


def test_nothing_at_a_terminal_is_the_chats_business() -> None:
    assert read(None, terminal=True)[0] == ""


@pytest.mark.parametrize(("stdin", "words"), [(b"", ()), (b" \n", ()), (None, ("",)), (b"", ("  ",)), (None, ())])
def test_an_empty_prompt_is_refused(stdin: bytes | None, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="empty"):
        read(stdin, words)


def test_binary_input_is_refused_and_bad_utf8_is_replaced_and_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="binary"):
        read(b"\x7fELF\0\0")
    path = tmp_path / "x.bin"
    path.write_bytes(b"\0\1")
    with pytest.raises(UsageError, match=r"x\.bin"):
        read(None, ("hi",), (path,))
    text, note = read(b"caf\xe9")
    assert text == "caf�"
    assert "not valid UTF-8" in note


def test_a_byte_order_mark_is_no_text() -> None:
    assert read(b"\xef\xbb\xbfhello")[0] == "hello"


def test_files_that_can_not_be_read_are_said(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="can't be read"):
            read(None, ("hi",), (path,))


def test_a_device_on_stdin_is_no_input() -> None:
    with Path(os.devnull).open("rb") as null:
        environment = Environment(null, BytesIO(), BytesIO(), False, False, False)
        assert read_prompt(["hi"], [], environment, Diagnostics(environment)) == "hi"


def test_a_silent_pipe_is_waited_for_and_said() -> None:
    reader, writer = os.pipe()
    stderr = BytesIO()
    with os.fdopen(reader, "rb") as pipe:
        environment = Environment(pipe, BytesIO(), stderr, False, False, False)
        os.write(writer, b"late")
        os.close(writer)
        assert read_prompt(["hi"], [], environment, Diagnostics(environment)) == "late\n\nhi"
    assert stderr.getvalue() == b""
