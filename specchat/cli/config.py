"""`specchat config`: where things lie, and what is set."""

from __future__ import annotations

from specchat.catalogue.cache import cache_root
from specchat.catalogue.entries import packaged_path, user_path
from specchat.chat.preferences import preferences_path, read_preferences
from specchat.chat.session import past_text_directory
from specchat.chat.store import store_path
from specchat.cli.environment import Environment
from specchat.cli.exit_codes import ExitCode
from specchat.cli.output import Stdout
from specchat.drafters.kept import cache_directory
from specchat.llama.library import NativeLog
from specchat.retrieval import shelf


def show_config(environment: Environment) -> ExitCode:
    """Print one line a thing: its name, a tab, its path or value. Raises PreferencesError for a wrong config.toml."""
    remember = read_preferences().remember
    lines = {
        "settings": preferences_path(),
        "catalogue": packaged_path(),
        "own catalogue": user_path(),
        "cache (drafts, heads, calibrations, costs)": cache_directory(),
        "past text (suffix)": past_text_directory(),
        "past text is kept": "yes" if remember else "no (suffix.remember = false)",
        "datastores (rest)": shelf.directory(),
        "conversations": store_path(),
        "models of the hub": cache_root(),
        "log of llama.cpp": NativeLog.path(),
    }
    Stdout(environment).write("".join(f"{name}\t{value}\n" for name, value in lines.items()))
    return ExitCode.OK
