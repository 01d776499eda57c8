"""What of the hub's cache a user might want to see or to be rid of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specchat.catalogue.cache import PARTIAL, WRONG, cache_root, repository, write_failure, writing
from specchat.catalogue.errors import ModelUnavailable
from specchat.catalogue.sources import HubFile


@dataclass(frozen=True, slots=True)
class CachedFile:
    """One GGUF file of the cache, or one unfinished download (then `commit` is None)."""

    repo: str
    file: str
    commit: str | None
    path: Path
    size: int
    """Bytes on the disk."""
    modified: float
    """Seconds since 1970."""


def cached_files() -> tuple[CachedFile, ...]:
    """All GGUF files in the cache, whoever fetched them, and unfinished downloads of this program."""
    if not cache_root().is_dir():
        return ()
    found = []
    for folder in sorted(cache_root().glob("models--*")):
        repo = "/".join(folder.name.split("--")[1:])
        for path in sorted((folder / "snapshots").rglob("*.gguf")):
            if path.is_file():
                commit, *names = path.relative_to(folder / "snapshots").parts
                found.append(_described(repo, "/".join(names), commit, path))
        for end in (PARTIAL, WRONG):
            unfinished = sorted((folder / "blobs").glob(f"*{end}"))
            found += [_described(repo, path.name, None, path) for path in unfinished]
    return tuple(found)


def _described(repo: str, file: str, commit: str | None, path: Path) -> CachedFile:
    status = path.stat()
    return CachedFile(repo, file, commit, path, status.st_size, status.st_mtime)


def remove(source: HubFile) -> int:
    """Delete the model's parts in every snapshot, and contents that nothing else needs; returns the bytes freed.

    What is left of an unfinished or wrong download goes too, where the source's SHA-256 is pinned. Raises
    ModelUnavailable where nothing of it is here, CacheNotWritable where it can't be deleted.
    """
    from huggingface_hub import scan_cache_dir

    names, root = {part.file for part in source.files}, cache_root()
    rests = [rest for part in source.files if part.sha256 for rest in _rests(part.repo, part.sha256)]
    info = scan_cache_dir(root) if root.is_dir() else None
    files = [
        file
        for repo in (info.repos if info else ())
        if repo.repo_type == "model" and repo.repo_id == source.repo
        for revision in repo.revisions
        for file in revision.files
        if file.file_path.relative_to(revision.snapshot_path).as_posix() in names
    ]
    if info is None or not (files or rests):
        raise ModelUnavailable(f"{source.reference} is not in the cache {root}.")
    strategy = info.delete_files(*files)
    with writing(repository(source.repo)):
        strategy.execute()
    return strategy.expected_freed_size + sum(discard(rest) for rest in rests)


def _rests(repo: str, etag: str) -> list[Path]:
    blobs = repository(repo) / "blobs"
    return [path for end in (PARTIAL, WRONG) if (path := blobs / (etag + end)).exists()]


def discard(unfinished: Path) -> int:
    """Delete one unfinished or wrong download (`path` of a CachedFile without commit); returns the bytes freed.

    Raises ModelUnavailable while another process is fetching it, CacheNotWritable where it can't be deleted.
    """
    from filelock import FileLock, Timeout

    etag = unfinished.name.removesuffix(PARTIAL).removesuffix(WRONG)
    lock = cache_root() / ".locks" / unfinished.parent.parent.name / f"{etag}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=0, mode=0o664):
            size = unfinished.stat().st_size
            unfinished.unlink()
    except Timeout:
        raise ModelUnavailable(f"{unfinished} is being downloaded by another process. Stop that one first.") from None
    except OSError as error:
        raise write_failure(error, unfinished) from error
    return size
