"""The user's own settings: `config.toml` in the configuration directory."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from specchat.catalogue.errors import CatalogueError


@dataclass(frozen=True, slots=True)
class Preferences:
    """What may be set once and for all."""

    remember: bool = True
    """Whether the suffix method keeps the token ids of past conversations, to draft from them."""


def preferences_path() -> Path:
    """The file, whether it is there or not."""
    return Path(platformdirs.user_config_path("specchat", appauthor=False)) / "config.toml"


def read_preferences() -> Preferences:
    """The user's settings over the defaults; raises CatalogueError for a file that can't be read as written."""
    path = preferences_path()
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except FileNotFoundError:
        return Preferences()
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise CatalogueError(f"{path} can't be read: {error.strerror}.") from None
    suffix = tables.pop("suffix", {})
    if tables:
        raise CatalogueError(f"{path}: [{next(iter(tables))}] is no table of this file; there is: suffix.")
    if not isinstance(suffix, dict) or not set(suffix) <= {"remember"}:
        raise CatalogueError(f"{path}: [suffix] is a table with one key, remember.")
    remember = suffix.get("remember", True)
    if not isinstance(remember, bool):
        raise CatalogueError(f"{path}, [suffix]: remember must be true or false.")
    return Preferences(remember)
