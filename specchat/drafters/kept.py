"""What is kept between starts: files that appear whole or not at all, named after the content they belong to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs

from specchat.llama.whole_file import written_whole


def cache_directory() -> Path:
    """The user's cache; deleting it costs time, nothing else."""
    return Path(platformdirs.user_cache_path("specchat", appauthor=False))


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` to `path`, also with several processes writing it at once; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as unfinished:
        unfinished.write_text(json.dumps(data), encoding="utf-8")


def content_digest(path: Path) -> str:
    """The first 32 digits of a file's sha256.

    Reading gigabytes at every start would be felt, so it is remembered for a file of this path, size and age. Raises
    OSError for a file that can't be read.
    """
    status = path.stat()
    state = [str(path.resolve()), status.st_size, status.st_mtime_ns]
    name = hashlib.sha256(str(state[0]).encode()).hexdigest()[:32]
    remembered = cache_directory() / "digests" / f"{name}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        held = json.loads(remembered.read_text(encoding="utf-8"))
        if held["state"] == state and isinstance(held["digest"], str) and len(held["digest"]) == 32:
            return held["digest"]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]
    with suppress(OSError):
        write_json(remembered, {"state": state, "digest": digest})
    return digest
