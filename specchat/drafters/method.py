"""The drafting methods by name; imports nothing, since `--help` lists them."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """Drafting methods, as named on the command line."""

    NONE = "none"
    DRAFT = "draft"
    EARLY_EXIT = "early-exit"
    LAYER_SKIP = "layer-skip"
    REST = "rest"
    PROMPT_LOOKUP = "prompt-lookup"
    SUFFIX = "suffix"
    LOOKAHEAD = "lookahead"
    AUTO = "auto"
