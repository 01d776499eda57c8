"""A model's header from the hub, in a file that is as long as the model and takes no room: enough to measure it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from specchat.catalogue.hub import Hub
from specchat.catalogue.ranges import RemoteFile
from specchat.catalogue.sources import HubFile
from specchat.drafters.kept import cache_directory
from specchat.llama.errors import ModelUnusable
from specchat.llama.gguf import HeaderCutShort, header_of_prefix
from specchat.llama.whole_file import written_whole

_FIRST: Final = 2 << 20
"""Bytes to begin with: the vocabulary is most of a header."""


def header_file(source: HubFile, hub: Hub) -> Path:
    """The header of `source` in a sparse file of the model's size, which is kept; of what is kept nothing is fetched.

    Of a split model the headers of all parts lie beside each other under their own names, and the path is the first
    one's. Raises HubError where the hub can't be asked, ModelUnusable for what is no model, OSError where the cache
    directory can't be written.
    """
    if not source.parts:
        return _one(source, hub)
    parts = [_one(part, hub) for part in (replace(source, parts=()), *source.parts)]
    # llama.cpp finds the further parts by the name of the first.
    folder = _directory() / hashlib.sha256("/".join(part.stem for part in parts).encode()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    names = [PurePosixPath(file.file).name for file in source.files]
    for name, part in zip(names, parts, strict=True):
        _link(part, folder / name)
    return folder / names[0]


def _one(source: HubFile, hub: Hub) -> Path:
    kept = _directory() / f"{_name(source)}.gguf"
    if source.sha256 is not None and _is_whole(kept, source.size):
        return kept
    remote = RemoteFile(source, hub)
    # Of a file without a pinned hash the hub tells the content's name: what is kept of that content will do.
    kept = _directory() / f"{_name(HubFile(source.repo, source.file, sha256=remote.content.etag))}.gguf"
    if not _is_whole(kept, remote.size):
        _write_sparse(kept, _header_bytes(remote, source.file), remote.size)
    return kept


def _link(file: Path, path: Path) -> None:
    """Let `path` lead to `file`, whatever was there."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(file)
    fresh.replace(path)


def _header_bytes(remote: RemoteFile, name: str) -> bytes:
    needed = min(_FIRST, remote.size)
    while True:
        data = remote.read(0, needed)
        try:
            header = header_of_prefix(data, name, remote.size)
        except HeaderCutShort as short:
            if short.needed <= len(data):
                raise ModelUnusable(f"{name} is damaged: its header makes no sense.") from None
            needed = max(short.needed, 2 * needed)
        else:
            return data[: header.data_start]


def _write_sparse(path: Path, data: bytes, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as unfinished, unfinished.open("wb") as file:
        file.write(data)
        file.truncate(size)


def _is_whole(path: Path, size: int | None) -> bool:
    try:
        return path.stat().st_size == size if size is not None else path.exists()
    except OSError:
        return False


def _name(source: HubFile) -> str:
    return source.sha256 or hashlib.sha256(f"{source.repo}/{source.file}@{source.revision}".encode()).hexdigest()


def _directory() -> Path:
    return cache_directory() / "headers"
