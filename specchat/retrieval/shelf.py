"""Where datastores lie, by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import platformdirs

from specchat.retrieval.errors import DatastoreError

SUFFIX: Final = ".rest"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def directory() -> Path:
    """The directory of the user's datastores."""
    return platformdirs.user_data_path("specchat", appauthor=False) / "rest"


def path_of(name: str) -> Path:
    """Where the datastore `name` lies or would lie; raises DatastoreError for what can't be a name."""
    if not _NAME.fullmatch(name):
        raise DatastoreError(
            f"{name!r} can't be the name of a datastore. Use up to 64 letters, digits, dots, dashes and underscores, "
            f"beginning with a letter or digit."
        )
    return directory() / f"{name}{SUFFIX}"


def existing(name: str) -> Path:
    """The file of the datastore `name`; raises DatastoreError, with the names there are, where there is none."""
    path = path_of(name)
    if not path.is_file():
        others = ", ".join(names())
        hint = f"There are: {others}." if others else "There are none yet: specchat rest build NAME PATH..."
        raise DatastoreError(f"There is no datastore {name!r}. {hint}")
    return path


def names() -> list[str]:
    """The names of all datastores, sorted."""
    try:
        paths = [path for path in directory().iterdir() if path.suffix == SUFFIX and not path.name.startswith(".")]
    except OSError:
        return []
    return sorted(path.name.removesuffix(SUFFIX) for path in paths if _NAME.fullmatch(path.name.removesuffix(SUFFIX)))


def remove(name: str) -> None:
    """Delete the datastore `name`, damaged or not; who has it open keeps it until then.

    Raises DatastoreError where there is none or it can't be deleted.
    """
    path = existing(name)
    try:
        path.unlink()
    except OSError as error:
        raise DatastoreError(f"The datastore {name!r} can't be removed ({path}: {error.strerror}).") from None
