"""What a chat is opened with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from specchat.tui.choices import AnswerChoices
from specchat.tui.prompt import PromptHistory
from specchat.tui.theme import DEFAULT
from specchat.worker.messages import Load


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The command line and config.toml, as far as the chat needs them."""

    load: Load | None = field(default_factory=lambda: Load("demo"))
    """What to open at once; None opens the list of models instead."""
    answers: AnswerChoices = field(default_factory=AnswerChoices)
    system: str = ""
    chat: str | None = None
    """Id of the conversation to open."""
    latest: bool = False
    """Open the conversation in which something was said last."""
    prompt: str = ""
    """Stands in the prompt at the start."""
    history: PromptHistory | None = None
    """Prompts written before; None: those since the start."""
    keys: Mapping[str, object] = field(default_factory=dict)
    """`[keys]` of config.toml."""
    theme: str = DEFAULT
    notes: tuple[str, ...] = ()
    """Sentences to say at the start."""
    remember_theme: Callable[[str], None] | None = None
    """Called with the name of a theme that the user chose."""
    forget: Callable[[str], None] | None = None
    """Deletes a conversation and all it left; None: from the store alone."""
    forget_message: Callable[[int], None] | None = None
    """Deletes a message of this id, what follows it and all they left; None: from the store alone."""
    when_full: str = "ask"
    """What becomes of a conversation that no longer fits the context: ask, drop or summarise."""
    export_directory: Path = field(default_factory=Path)
    """Where an export without a path goes."""
    clock: Callable[[], float] = time.monotonic
    """Seconds, for intervals."""
    now: Callable[[], datetime] = datetime.now
    """The wall clock; tests freeze both."""
