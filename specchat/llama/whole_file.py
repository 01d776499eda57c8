"""Files that appear whole or not at all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write a file to, which becomes `path` in one step once the block ends without an error.

    Otherwise nothing of it is left, and what `path` was before stays. Several processes may write at once: the last
    one to finish stays. Raises OSError; the directory must be there.
    """
    # Not made by mkstemp: that file would be for its owner alone.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
