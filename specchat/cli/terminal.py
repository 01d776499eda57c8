"""How wide the terminal is, and what is cut so that it keeps to one line."""

from __future__ import annotations

import os
from typing import BinaryIO, Final

from specchat.cli.environment import Environment

UNKNOWN_WIDTH: Final = 80


def columns(environment: Environment, stream: BinaryIO) -> int:
    """Columns of the terminal behind `stream`; COLUMNS overrides it, and 80 stands for what is not known."""
    told = environment.variables.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or UNKNOWN_WIDTH
    except (OSError, ValueError):
        return UNKNOWN_WIDTH


def cut(text: str, width: int) -> str:
    """`text` in at most `width` columns; what is missing is marked by an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + "…" if width > 0 else ""
