"""Where a model file comes from: an installed package, a path, the hub, or the target itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class PackageFile:
    """A model file inside an installed Python package."""

    package: str
    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A model file at a path of this machine; of a split model, its first part."""

    path: Path


@dataclass(frozen=True, slots=True)
class HubFile:
    """A model file in a repository of the hub; of a split model, its first part.

    What is None is not pinned: then what the hub itself reports is compared with what arrives.
    """

    repo: str
    """`user/name`."""
    file: str
    """Its path inside the repository."""
    revision: str | None = None
    """A commit (40 hexadecimal digits), a branch or a tag; None is the main branch."""
    size: int | None = None
    """In bytes; of this file alone."""
    sha256: str | None = None
    """In lower-case hexadecimal; of this file alone."""
    parts: tuple[HubFile, ...] = ()
    """The further parts of a split model, in order; they have no parts themselves."""

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, so that the file can never change under its name."""
        return self.revision is not None and _COMMIT.fullmatch(self.revision) is not None

    @property
    def files(self) -> tuple[HubFile, ...]:
        """Everything to fetch: this file and the further parts."""
        return (self, *self.parts)

    @property
    def total_size(self) -> int | None:
        """Bytes of all parts together; None while one of them is not known."""
        sizes = [file.size for file in self.files if file.size is not None]
        return sum(sizes) if len(sizes) == len(self.files) else None

    @property
    def reference(self) -> str:
        """What names this file on the command line."""
        return HubQuery(self.repo, self.revision, self.file).reference


@dataclass(frozen=True, slots=True)
class HubQuery:
    """What a user asked of a repository without saying which file; `reference.resolve` answers it from a listing."""

    repo: str
    """`user/name`."""
    revision: str | None = None
    wanted: str | None = None
    """A file's name or a quantisation, such as `Q4_K_M`; None takes the default one."""

    @property
    def reference(self) -> str:
        """What names this query on the command line."""
        revision = f"@{self.revision}" if self.revision else ""
        wanted = f":{self.wanted}" if self.wanted else ""
        return f"hf:{self.repo}{revision}{wanted}"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file of a repository, as the hub lists it."""

    name: str
    """Its path inside the repository."""
    size: int | None = None
    """In bytes."""
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class CutFromTarget:
    """A draft made of the target itself, without some of its layers."""

    drop_layers: tuple[int, ...]


Source = PackageFile | LocalFile | HubFile | HubQuery
