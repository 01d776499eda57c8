"""The user's own settings: `config.toml` in the configuration directory, and the theme chosen in the chat."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import platformdirs

_TABLES: Final = ("suffix", "chat", "keys")
WHEN_FULL: Final = ("ask", "drop", "summarise")


class PreferencesError(Exception):
    """A config.toml that can't be read as written; the message names file, table and key."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """What may be set once and for all."""

    remember: bool = True
    """Whether the suffix method keeps the token ids of past conversations, to draft from them."""
    theme: str | None = None
    """The chat's colours; None: those chosen last, or the default."""
    keep_questions: bool = True
    """Whether questions asked at a terminal are kept with the conversations, as those of the chat are."""
    when_full: str = WHEN_FULL[0]
    """What becomes of a conversation that no longer fits the context: ask, drop its oldest messages, or summarise
    them."""
    keys: Mapping[str, object] = field(default_factory=dict)
    """Keys of the chat by action; the chat itself knows which there are."""


def preferences_path() -> Path:
    """The file, whether it is there or not."""
    return Path(platformdirs.user_config_path("specchat", appauthor=False)) / "config.toml"


def read_preferences() -> Preferences:
    """The user's settings over the defaults; raises PreferencesError for a file that can't be read as written."""
    tables = _tables(preferences_path())
    for name, table in tables.items():
        if name not in _TABLES:
            raise _complaint(f"[{name}] is no table of this file; there are: {', '.join(_TABLES)}")
        if not isinstance(table, dict):
            raise _complaint(f"{name} must be a table, [{name}]")
    remember = _value(tables, "suffix", "remember", bool, "true or false", allowed=("remember",))
    chat = ("theme", "keep_questions", "when_full")
    theme = _value(tables, "chat", "theme", str, "the name of a theme", allowed=chat)
    keep = _value(tables, "chat", "keep_questions", bool, "true or false", allowed=chat)
    when_full = _value(tables, "chat", "when_full", str, f"one of: {', '.join(WHEN_FULL)}", allowed=chat)
    if when_full is not None and when_full not in WHEN_FULL:
        raise _complaint(f"[chat]: when_full is {when_full!r}, but it must be one of: {', '.join(WHEN_FULL)}")
    return Preferences(
        remember=remember is not False,
        theme=theme or _chosen_theme(),
        keep_questions=keep is not False,
        when_full=when_full or WHEN_FULL[0],
        keys=tables.get("keys", {}),
    )


def _tables(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PreferencesError(f"{path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise PreferencesError(f"{path} can't be read: {error.strerror}.") from None


def _value(tables: Mapping[str, Any], name: str, key: str, kind: type, what: str, *, allowed: tuple[str, ...]) -> Any:
    table = tables.get(name, {})
    for other in table:
        if other not in allowed:
            raise _complaint(f"[{name}] has no key {other}; there are: {', '.join(allowed)}")
    value = table.get(key)
    if value is not None and not isinstance(value, kind):
        raise _complaint(f"[{name}]: {key} must be {what}")
    return value


def _complaint(what: str) -> PreferencesError:
    return PreferencesError(f"{preferences_path()}: {what}.")


def _theme_path() -> Path:
    return Path(platformdirs.user_state_path("specchat", appauthor=False)) / "theme"


def _chosen_theme() -> str | None:
    try:
        return _theme_path().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def remember_theme(name: str) -> None:
    """Keep the theme that was chosen in the chat; where that can't be written it lasts until the end."""
    with contextlib.suppress(OSError):
        _theme_path().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _theme_path().write_text(name, encoding="utf-8")
