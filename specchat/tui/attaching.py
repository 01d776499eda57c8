"""Text files as part of a prompt."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from specchat.chat.amounts import size

LARGEST: Final = 1_000_000
"""Bytes; more fills any context."""


class NotAttached(Exception):
    """A file that can't go into a prompt; the message is a sentence for the user."""


def attached(path_text: str) -> tuple[str, str]:
    """The file's name, and its text in a fence with the name; raises NotAttached."""
    path = path_of(path_text)
    text = _read(path)
    language = path.suffix.removeprefix(".") if re.fullmatch(r"\.[A-Za-z0-9]+", path.suffix) else ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    ending = "" if text.endswith("\n") or not text else "\n"
    return path.name, f"{path.name}:\n{fence}{language}\n{text}{ending}{fence}\n"


def path_of(path_text: str) -> Path:
    """The path that was written or dropped; raises NotAttached."""
    try:
        return Path(_unquoted(path_text)).expanduser()
    except RuntimeError:
        raise NotAttached(f"There is no home directory for {path_text}. Name a text file: /file PATH.") from None


def names_of(paths: Iterable[str]) -> list[str]:
    """What to call each file: its name, with its directory where two have the same name."""
    files = [Path(path) for path in paths]
    count = Counter(file.name for file in files)
    return [file.name if count[file.name] == 1 else f"{file.parent.name}/{file.name}" for file in files]


def _read(path: Path) -> str:
    try:
        if not path.is_file():
            what = "a directory" if path.is_dir() else ("not a plain file" if path.exists() else "not there")
            raise NotAttached(f"{path} is {what}. Name a text file: /file PATH.")
        found = path.stat().st_size
        if found > LARGEST:
            raise NotAttached(
                f"{path.name} has {size(found)}; more than {size(LARGEST)} would fill any context. Attach a part of it."
            )
        data = path.read_bytes()
    except OSError as error:
        raise NotAttached(f"{path} can't be read: {error.strerror}.") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    if (not text and data) or "\0" in text:
        raise NotAttached(f"{path.name} is not text in UTF-8. Only text files can be attached.")
    return text.replace("\r\n", "\n")


def _unquoted(text: str) -> str:
    """A path as it was dropped on the terminal: in quotes, or with its spaces escaped."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text if Path(text).exists() else text.replace("\\ ", " ")
